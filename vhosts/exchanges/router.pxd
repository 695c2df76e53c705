# Compiled types of router.py.

cimport cython

from persistence.memory cimport MemoryBudget
from persistence.log.routing.recorder cimport RouteEntry

from vhosts.counters cimport ExchangeCounters, RecentUnroutable
from vhosts.exchanges.exchange cimport Exchange, Routable
from vhosts.exchanges.route cimport Route, RouteNamer
from vhosts.exchanges.walk cimport Asked, Walk, WalkedTable
from vhosts.queues.handle cimport QueueHandle

cdef Py_ssize_t _ROUTES_MAX
cdef Py_ssize_t _WIDTH_MAX
cdef Py_ssize_t _ROUTE_BYTES
cdef Py_ssize_t _HEADERS_BYTES_MAX
cdef Py_ssize_t _SPREAD_SLICE
cdef unsigned char _MANDATORY
cdef Py_ssize_t _WALK_UNITS
cdef unsigned char _IMMEDIATE


cdef class Permits:
    pass


cdef class RoutingTable(WalkedTable):
    cdef public str vhost
    cdef public dict default_routes
    cdef public RouteNamer names
    cdef public RecentUnroutable unroutable
    cdef public list filled
    cdef public list taps
    cdef public object stale  # used once a change of the table; not compiled
    @cython.locals(filled=list, cache=RouteCache)
    cpdef changed(self)
    cpdef RouteEntry default_entry(self, Route route)


cdef class RouteCache:
    cdef RoutingTable _table
    cdef Permits _permits
    cdef bint _is_listed
    cdef dict _by_args
    cdef dict _by_headers
    cdef bint _default_permitted
    cdef unsigned long long _generation
    cdef public Py_ssize_t units
    cdef public Walk unfinished
    cdef Py_ssize_t _width
    cdef Py_ssize_t _bytes
    cdef MemoryBudget _account
    @cython.locals(table=RoutingTable, octets="const unsigned char*", size=Py_ssize_t, route=Route)
    cpdef Route find(self, bytes args)
    @cython.locals(table=RoutingTable, start=Py_ssize_t, end=Py_ssize_t, by_headers=bytes, known=Route, walk=Walk, is_done=bint)
    cpdef Route resolve(self, bytes args, bytes properties, Walk unfinished=*)
    @cython.locals(walk=Walk)
    cpdef Walk take_unfinished(self)
    @cython.locals(table=RoutingTable, asked=Asked, flags=int, exchange=Exchange, message=Routable)
    cdef Walk _begun(self, bytes args, bytes properties, bytes headers)
    @cython.locals(table=RoutingTable, route=Route, asked=Asked, args=bytes, flags=int)
    cdef Route _finished(self, Walk walk, bytes by_headers)
    cdef void _make_room(self, dict routes, Walk walk)
    @cython.locals(width=Py_ssize_t, size=Py_ssize_t)
    cdef void _count(self, bytes by, Walk walk)
    cdef void _drop_all(self)
    cpdef forget(self, unsigned long long generation)


cpdef bint may_select(bytes headers) except -1
@cython.locals(index=Py_ssize_t, queue=QueueHandle)
cdef list _existing(list queues)
@cython.locals(index=Py_ssize_t, queue=QueueHandle, count=Py_ssize_t)
cdef Py_ssize_t _look_for_replies(Route route) except -1
cpdef bytes publish_args(str exchange, str routing_key)
cdef tuple _decode(bytes args)
