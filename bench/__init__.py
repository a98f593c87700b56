"""Side-by-side measurements: what homarus costs, as a ratio to a floor or a peer measured in the same run."""
