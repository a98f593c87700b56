"""Typed memory over plain Markdown: the Retain bullets of a daily note and the entities they speak of."""
