"""From raw RESP to Arrow: the lines of a reply, pages of entries, and the columns made of them."""
