"""Ready jobs for the chores around streams and consumer groups: `python -m headrace.pipeline JOB ...`."""
