"""The service's pages for people: sign-in, settings, members and the API reference.

They are rendered here and need no scripts and no other files. Every address is
relative, so they work below a path prefix such as Binder's proxy. `visitor` knows who
is looking at a page and whether a form is genuine, `html` renders and sends a page, and
each other module is one page. The consent page is in `agentbook.service.oauth`.
"""
