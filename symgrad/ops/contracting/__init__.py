"""Sums of products, and what is counted, slid or measured with them."""
