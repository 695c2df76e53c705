cimport cython

from amqp_router.protocol.message cimport Message
from amqp_router.protocol.tick cimport Tick
from persistence.memory cimport MemoryBudget
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.consumers cimport Consumer
from vhosts.queues.contents cimport Contents
from vhosts.queues.dispatch cimport Dispatch
from vhosts.queues.expiry cimport Expiry
from vhosts.queues.handle cimport QueueHandle, Run
from vhosts.queues.limits cimport Limits
from vhosts.queues.ready.order cimport ReadyOrder
from vhosts.queues.receipts cimport Receipts

cdef unsigned char _PERSISTENT
cdef unsigned char _REDELIVERED
cdef unsigned char _LOGGED
cdef int _ACK
cdef int _DROP
cdef int _EXPIRE
cdef unsigned int _NO_EXPIRY
cdef int _DEAD_LETTER
cdef unsigned char _SPILLED
cdef Py_ssize_t _AT_ONCE_UNITS
cdef Py_ssize_t _TRIM_UNITS
cdef int _RETURN
cdef int _REDELIVERY_EXTRA
cdef int _PARKED_PER_UNIT
cdef unsigned int _COUNT_MAX


cdef class Queue(QueueHandle):
    cdef public object services
    cdef public Tick tick
    cdef public Contents contents
    cdef public MemoryBudget budget
    cdef public ReadyOrder ready
    cdef public Dispatch dispatch
    cdef public Receipts receipts
    cdef public object settings
    cdef public Expiry expiry
    cdef public Limits limits
    cdef public bint buries
    cdef public unsigned long long next_offset
    cdef public bint dirty
    cdef public unsigned long long pumped_at
    cdef public bint stalled
    cdef public str error
    cdef public str refusing
    cdef public unsigned long long publish_total
    cdef public unsigned long long deliver_total
    cdef public unsigned long long deliver_no_ack_total
    cdef public unsigned long long get_total
    cdef public unsigned long long get_no_ack_total
    cdef public unsigned long long get_empty_total
    cdef public unsigned long long redeliver_total
    cdef public unsigned long long ack_total
    cdef public unsigned long long expired_total
    cdef public unsigned long long dropped_total
    cdef public unsigned long long rejected_total
    @cython.locals(log=QueueLog, logged=bint)
    cpdef bint publish(self, Message message) except -1
    cpdef void await_durable(self, Run run)
    cpdef void touch(self)
    cdef _watch_published(self, Message message)
    @cython.locals(expiry=Expiry)
    cpdef bint has_due(self)
    cpdef bint has_new(self)
    cpdef void begin_return(self)
    cpdef void end_return(self)
    cpdef bint is_returning(self)
    @cython.locals(done=Py_ssize_t, parked=int, consumer=Consumer, message=Message, account=MemoryBudget,
                   ready=ReadyOrder, dispatch=Dispatch, now_us="long long")
    cpdef Py_ssize_t pump(self, Py_ssize_t budget) except -1
    @cython.locals(ready=ReadyOrder, head=Message, message=Message, now_us="long long", is_eager=bint)
    cdef Py_ssize_t _expire(self, Py_ssize_t done, Py_ssize_t budget) except -1
    cdef bint _has_room(self, Message message) except -1
    @cython.locals(ready=ReadyOrder, limits=Limits, message=Message)
    cdef Py_ssize_t _trim(self, Py_ssize_t done, Py_ssize_t budget) except -1
    cdef bint _must_wait(self) except -1
    cdef _die(self, Message message, int kind)
    cdef _watch(self, long long head_us)
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    cpdef void wake(self, Consumer consumer)
    @cython.locals(message=Message)
    cpdef Message get(self, bint no_ack)
    cpdef void settle(self, Message message, int kind)
    @cython.locals(log=QueueLog)
    cdef void _gone(self, Message message, int kind)
    cpdef void requeue(self, Message message)
    cpdef long long message_count(self)
    cpdef put_aside(self, Message message)
