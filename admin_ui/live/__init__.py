"""What the pages show, as it changes: server-sent events at ``/admin/v1/events?topics=overview,queues``.

Once a second each topic that anybody watches is read once, and what came out is shared by all who watch it; a
topic without watchers costs nothing. A topic of one object is sent whole. A list is sent whole first and as
changes afterwards. Nothing is queued for a viewer: one that is slow to read gets, when it has read, the
newest state, of a list the whole one. When reading takes long (many thousands of queues), it is done less
often.

Topics; names in them are percent-encoded, and each event is named after its topic:

    overview            totals, counts, node, what needs attention; overview:VHOST of one virtual host
    queues exchanges connections                            lists
    queue:VHOST/NAME exchange:VHOST/NAME connection:NAME    one object; {"gone": true} if there is none

``POST /admin/v1/sparklines`` gives the last ten minutes of up to a hundred queues.
"""

from admin_ui.live.stream import add_routes

__all__ = ["add_routes"]
