"""What answers are made with: the grid of `range`, exact noise, and its error. Imported from its modules: only noise needs OpenDP."""
