"""The questions that roles ask about a host; readings answer them."""
