"""The sections, one function each: facts in, text out, and an empty text where the section does not apply."""
