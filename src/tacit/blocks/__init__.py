"""A party's columns as a linear map: in memory, on disk as dense or sparse rows, or on a cluster."""
