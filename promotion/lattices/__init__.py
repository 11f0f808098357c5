"""Holds join semilattices: their laws, and the completion of orders to them."""
