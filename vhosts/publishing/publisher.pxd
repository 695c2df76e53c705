# Compiled types of publisher.py.

cimport cython

from amqp_router.protocol cimport flags as bits
from amqp_router.protocol.message cimport Message
from persistence.log.routing cimport events
from persistence.log.routing.recorder cimport RouteEntry
from persistence.memory cimport MemoryBudget
from vhosts.counters cimport ExchangeCounters
from vhosts.exchanges.route cimport Route
from vhosts.exchanges.router cimport RouteCache, RoutingTable
from vhosts.exchanges.walk cimport Walk
from vhosts.publishing.spread cimport Spread, Spreader, refusal
from vhosts.publishing.ports cimport Flow, Listener, Run
from vhosts.queues.handle cimport QueueHandle

cdef unsigned int _TAKEN
cdef unsigned int _UNROUTABLE
cdef unsigned int _REFUSED
cdef unsigned int _FAILED
cdef unsigned int _NOT_TAKEN
cdef unsigned int _WAITS
cdef unsigned int _LATER
cdef Py_ssize_t _SPREAD_SLICE
cdef Py_ssize_t _SPREAD_DURABLE
cdef Py_ssize_t _COLD
cdef Py_ssize_t _SPREAD_WORK
cdef long long _ENTRY_UNITS
cdef long long _NOWHERE_UNITS
cdef unsigned char _HAS_HEADERS


@cython.final
cdef class Publisher(Spreader):
    cdef public RoutingTable table
    cdef public RouteCache cache
    cdef public MemoryBudget account
    cdef public Listener listener
    cdef public Flow flow
    cdef public list open_runs
    cdef public list refusers
    cdef public Py_ssize_t units
    cdef public Run run
    cdef public Route run_route
    cdef public list run_queues
    cdef unsigned int _result
    cdef unsigned long long _run_next
    @cython.locals(queues=list, durable_queues=list, count=Py_ssize_t, given=Py_ssize_t, size="long long", waits=bint, outcome="unsigned int")
    cpdef unsigned int publish(self, Route route, Message message, unsigned long long number, unsigned int flags) except? 4294967295
    @cython.locals(count=Py_ssize_t, given=Py_ssize_t, index=Py_ssize_t, result="unsigned int", queue=QueueHandle)
    cdef Py_ssize_t _give(self, QueueHandle single, list queues, Message message) except -1
    cdef unsigned int _refused(self, QueueHandle queue) except? 4294967295
    @cython.locals(counters=ExchangeCounters)
    cdef void _count(self, Route route, Py_ssize_t count) noexcept
    @cython.locals(entry=RouteEntry)
    cdef int _note(self, Route route, long long size, unsigned long long number, unsigned int flags, unsigned int outcome) except -1
    @cython.locals(run=Run)
    cdef void _wait(self, Route route, list durable_queues, long long size, unsigned long long number)
    @cython.locals(units=Py_ssize_t)
    cdef void _charge(self, Route route, Py_ssize_t count) noexcept
    cdef int _keep(self, list keepers, Message message) except -1
    @cython.locals(run=Run, route=Route, queues=list, index=Py_ssize_t, queue=QueueHandle)
    cpdef void close_run(self)
    cdef void _hold(self, Run run, Route route)
    @cython.locals(spread=Spread, run=Run, index=Py_ssize_t, queue=QueueHandle)
    cdef _spread(self, Route route, Message message, unsigned long long number, unsigned int flags, Py_ssize_t given, bint waits)


@cython.locals(inner=list, index=Py_ssize_t, pair=tuple, counters=ExchangeCounters)
cdef void _count_inner(Route route) noexcept
