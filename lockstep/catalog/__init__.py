"""Data about GPU models, operating systems and vendor software; independent of any cluster."""
