cimport cython

from amqp_router.protocol.message cimport Message
from persistence.memory cimport MemoryBudget
from vhosts.exchanges.route cimport Route
from vhosts.publishing.ports cimport Listener, Run
from vhosts.queues.handle cimport QueueHandle
from vhosts.unstored cimport Unstored

cdef Py_ssize_t _SPREAD_SLICE
cdef Py_ssize_t _SPREAD_DURABLE
cdef Py_ssize_t _SPREAD_WORK
cdef unsigned int _REFUSED
cdef unsigned int _FAILED


cdef class Spreader:
    cpdef spread_done(self, Spread spread)


@cython.final
cdef class Spread:
    cdef public MemoryBudget account
    cdef public Unstored unstored
    cdef public Route route
    cdef public list queues
    cdef public Message message
    cdef public unsigned long long number
    cdef public unsigned int flags
    cdef public Py_ssize_t position
    cdef public unsigned int result
    cdef public list refusers
    cdef public Run run
    cdef public Listener listener
    cdef public Spreader publisher
    @cython.locals(queues=list, end=Py_ssize_t, run=Run, index=Py_ssize_t, queue=QueueHandle, account=MemoryBudget)
    cpdef bint go_on(self) except -1


cpdef unsigned int refusal(QueueHandle queue) except? 4294967295
