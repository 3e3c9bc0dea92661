"""The rules, one module per family. A module's ``RULES`` are rules; ``_`` modules are shared."""
