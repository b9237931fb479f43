"""The sandbox: an analyst's program sees one chunk, for one slot, and nothing else."""
