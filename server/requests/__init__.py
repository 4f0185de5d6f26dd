"""From requests to replies: dispatch, admission, blocked clients, turns of the loop."""
