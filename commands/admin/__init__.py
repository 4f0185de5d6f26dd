"""Commands for operators: ACL, CONFIG, DEBUG, INFO, MEMORY, COMMAND, SAVE, SHUTDOWN and others."""
