"""The jobs of `python -m headrace.pipeline JOB ...`: archive, replay, deadletter and audit."""
