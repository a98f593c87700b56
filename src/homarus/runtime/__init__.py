"""One home at work in this process: the composition root, its lanes, and the client contract."""
