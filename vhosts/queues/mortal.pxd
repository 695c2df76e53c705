cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues cimport state as states
from vhosts.queues.destination cimport Burials
from vhosts.queues.drops cimport Drops
from vhosts.queues.expiry cimport Expiry
from vhosts.queues.limits cimport Limits
from vhosts.queues.ready.order cimport ReadyOrder
from vhosts.queues.standing cimport StandingQueue

cdef Py_ssize_t _DEATH_UNITS


cdef class MortalQueue(StandingQueue):
    cdef public object settings  # a frozen dataclass
    cdef public Expiry expiry
    cdef public Limits limits
    cdef public bint trims_first
    cdef public unsigned long long trims_from
    cdef public unsigned long long pumped_at
    cdef public bint buries
    cdef public str letter_exchange
    cdef public str letter_key
    cdef public bint is_delayed
    cdef public unsigned int delivery_limit
    cdef public unsigned long long expired_total
    cdef public unsigned long long dropped_total
    cdef public Drops drops
    cdef public unsigned long long rejected_total
    @cython.locals(ready=ReadyOrder, head=Message, message=Message, now_us="long long", is_eager=bint)
    cdef Py_ssize_t _expire(self, Py_ssize_t done, Py_ssize_t budget) except -1
    @cython.locals(ready=ReadyOrder, limits=Limits, head=Message, message=Message, drops=Drops)
    cdef Py_ssize_t _trim(self, Py_ssize_t done, Py_ssize_t budget, long long newest) except -1
    @cython.locals(newest="long long", done=Py_ssize_t)
    cdef Py_ssize_t _trim_returned(self, Py_ssize_t budget) except -1
    @cython.locals(letters=Burials)
    cdef bint _must_wait(self) except -1
    cdef _die(self, Message message, int kind)
    @cython.locals(drops=Drops)
    cdef _die_among(self, Message message, str reason)
    cdef _bury(self, Message message, str reason)
    cdef _bury_refused(self, Message message)
    cpdef bint recall(self, Message message) except -1
    cpdef buried(self, Message message, str reason, bint stays)
    cdef _watch(self, long long head_us)
    cdef _expire_itself(self)
    @cython.locals(log=QueueLog)
    cdef void _gone(self, Message message, int kind)
    @cython.locals(expiry=Expiry)
    cdef bint _is_head_over(self) except -1
    cpdef bint has_due(self)
