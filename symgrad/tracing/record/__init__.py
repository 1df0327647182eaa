"""What ran: calls and values as they were seen, and what their author calls them."""
