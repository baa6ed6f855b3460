"""Watch a job: a live page in the browser, or a terminal, from the files that the job writes.

A `Source` reads one kind of job. A `View` of it says what is new to one reader, thinned to what a screen can
show. `server` sends that as events to a static page, `terminal` draws it with Rich.
"""
