"""The same homes on many machines: rows in Postgres, leases with an epoch, workers that hold homes and an edge before them."""
