"""Live data for the pages: server-sent events at ``/admin/v1/events?topics=overview,queues``.

Once a second each watched topic is read once, and all its viewers share the result. A topic without viewers
costs nothing. A topic of one object is sent as a whole. A list is first sent as a whole and then as changes.
Nothing is queued for a viewer: a slow one gets the newest state when it has read, and lists as a whole. If
reading takes long (many thousands of queues), it is done less often.

These are the topics. Names in them are percent-encoded, and each event has the name of its topic:

    overview            totals, counts, node, what needs attention; overview:VHOST of one virtual host
    queues exchanges connections                            lists
    queue:VHOST/NAME exchange:VHOST/NAME connection:NAME    one object; {"gone": true} if there is none

``POST /admin/v1/sparklines`` gives the last ten minutes of up to a hundred queues.
"""

from admin_ui.live.stream import add_routes

__all__ = ["add_routes"]
