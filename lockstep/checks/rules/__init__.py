"""Each module defines one family of rules in ``RULES``; modules named ``_*`` hold shared code."""
