cimport cython

from amqp_router.channel.confirms cimport Confirms
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.frames cimport ContentScan
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from persistence.log.routing.recorder cimport RouteEntry
from persistence.memory cimport MemoryBudget
from vhosts.counters cimport ExchangeCounters
from vhosts.exchanges.router cimport Route, RouteCache, RoutingTable
from vhosts.exchanges.walk cimport Walk
from vhosts.queues.handle cimport QueueHandle, Run

cdef unsigned char _PERSISTENT
cdef unsigned char _MANDATORY
cdef Py_ssize_t _SPREAD_SLICE
cdef Py_ssize_t _SPREAD_WORK
cdef int _ANSWER_SHIFT
cdef unsigned int _NOTED_PERSISTENT
cdef unsigned int _NOTED_MANDATORY
cdef unsigned int _NOTED_UNROUTABLE
cdef unsigned int _NOTED_RETURNED
cdef unsigned int _NOTED_CONFIRMED
cdef unsigned int _NOTED_REFUSED
cdef unsigned int _HEADERS
cdef unsigned int _REPLY_TO
cdef unsigned int _ODD_MODE
cdef unsigned int _CHECKED
cdef unsigned int _SPECIAL


cdef class Inflow:
    cdef public long long unsynced
    cdef public long long limit
    cdef public bint over
    cdef public object resume
    cpdef void add(self, long long size)
    cpdef void remove(self, long long size)


cdef class Spread:
    cdef public Publishing publishing
    cdef public Route route
    cdef public list queues
    cdef public Message message
    cdef public unsigned int flags
    cdef public Py_ssize_t position
    cdef public bint taken
    cdef public Run run
    @cython.locals(queues=list, end=Py_ssize_t, run=Run, index=Py_ssize_t, queue=QueueHandle, account=MemoryBudget)
    cpdef bint go_on(self) except -1


cdef class Publishing:
    cdef public MemoryBudget account
    cdef public unsigned int number
    cdef public RouteCache cache
    cdef public RoutingTable table
    cdef public str user
    cdef public Output out
    cdef public Inflow inflow
    cdef public Confirms confirms
    cdef public bint confirming
    cdef public object listener
    cdef public unsigned long long next_sequence
    cdef public bytes last_args
    cdef public Route last_route
    cdef public Walk walk
    cdef public Run run
    cdef public Route run_route
    cdef public list run_queues
    cdef public list open_runs
    cdef public unsigned long long publish_total
    cdef public unsigned long long return_total
    cdef public unsigned long long drop_total
    @cython.locals(route=Route, units=Py_ssize_t, message=Message, flags="unsigned int")
    cpdef Py_ssize_t publish(self, bytes args, object content, ContentScan scan, unsigned int frame_count) except -1
    @cython.locals(persistent=bint, size="long long", taken=bint, units=Py_ssize_t, queue=QueueHandle, queues=list, count=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t _distribute(self, Route route, Message message, unsigned int flags) except -1
    @cython.locals(entry=RouteEntry)
    cdef int _note(self, Route route, long long size, Py_ssize_t count, unsigned int flags) except -1
    @cython.locals(spread=Spread, run=Run, index=Py_ssize_t, queue=QueueHandle)
    cdef Py_ssize_t _spread(self, Route route, Message message, unsigned int flags, Py_ssize_t position, bint taken) except -1
    @cython.locals(message=Message, flags="unsigned int", run=Run)
    cpdef spread_done(self, Spread spread)
    @cython.locals(original=Message, message=Message)
    cdef Py_ssize_t _publish_without_bcc(self, Route route, object content, ContentScan scan, unsigned int flags) except -1
    @cython.locals(run=Run)
    cdef void _wait(self, Route route, long long size)
    @cython.locals(run=Run, route=Route, queues=list, index=Py_ssize_t, queue=QueueHandle)
    cpdef void close_run(self)
    cpdef void run_done(self, Run run)
    @cython.locals(properties=bytes)
    cdef bint _inspect(self, bytes args, object content, ContentScan scan) except -1
    @cython.locals(out=Output, buf=Buf, text=bytes, size=Py_ssize_t)
    cdef void _return(self, Route route, Message message)


@cython.locals(inner=list, index=Py_ssize_t, pair=tuple, counters=ExchangeCounters)
cdef void _count_inner(Route route)
@cython.locals(header=bytes)
cdef bytes _properties(object content, Py_ssize_t header_size)
