"""Sessions that other programs keep elsewhere, read where they lie and never changed there."""
