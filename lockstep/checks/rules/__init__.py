"""The rules: one module per family, with a tuple ``RULES``. Modules ``_*`` hold shared code."""
