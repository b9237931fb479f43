"""Tests of the calculus."""
