"""Several ranks of a sharded run as one side of a comparison: layouts, assembly, causes."""
