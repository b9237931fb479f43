"""What an analyst's session can see of the inner query of a release: nothing."""
