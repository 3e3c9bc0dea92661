"""Generated documents and data: ``python -m scripts.generate`` writes all of them."""
