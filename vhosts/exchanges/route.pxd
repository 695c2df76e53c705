# Compiled types of route.py.

cimport cython

from persistence.log.routing.recorder cimport RouteEntry
from vhosts.counters cimport ExchangeCounters
from vhosts.queues.handle cimport QueueHandle


cdef class Route:
    cdef public list queues
    cdef public QueueHandle single
    cdef public list durable_queues
    cdef public RouteEntry entry
    cdef public ExchangeCounters counters
    cdef public list inner
    cdef public list keepers
    cdef public bytes route
    cdef public str exchange
    cdef public str routing_key
    cdef public bint has_replies
    cdef public bint is_reply
    cdef public bint logs_all
    cdef public bint mandatory
    cdef public bint has_bcc
    cdef public bint cacheable
    cdef public unsigned long long generation
    cdef public unsigned long long waits_for
    @cython.locals(queue=QueueHandle, index=Py_ssize_t)
    cpdef lead_to(self, list queues, list durable_queues)
    cpdef let_go(self)


cdef class RouteNamer:
    pass


@cython.locals(copy=Route)
cpdef Route lasting(Route route)
@cython.locals(route=Route)
cpdef Route default_route(QueueHandle queue, ExchangeCounters counters)
