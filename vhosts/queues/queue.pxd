cimport cython

from amqp_router.protocol.message cimport Message
from amqp_router.protocol.tick cimport Tick
from persistence.memory cimport MemoryBudget
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.consumers cimport Consumer
from vhosts.queues.handle cimport QueueHandle, Run

cdef long long _WINDOW_MESSAGES
cdef long long _WINDOW_BYTES
cdef unsigned char _PERSISTENT
cdef unsigned char _REDELIVERED
cdef unsigned char _LOGGED
cdef unsigned char _SPILLED
cdef int _ACK
cdef int _DROP
cdef int _RETURN
cdef int _REDELIVERY_EXTRA
cdef int _PARKED_PER_UNIT
cdef long long _OVERHEAD
cdef int _GROW_SHIFT
cdef int _SPILL_UNITS
cdef int _SPILL_OCTETS_SHIFT


cdef class Queue(QueueHandle):
    cdef public Tick tick
    cdef public MemoryBudget budget
    cdef public object open_pager
    cdef public object on_deleted
    cdef public object on_failed
    cdef public object discard
    cdef public object in_slices
    cdef public dict leaving
    cdef public object pager
    cdef public object spill
    cdef public list ring
    cdef public Py_ssize_t ring_head
    cdef public Py_ssize_t ring_count
    cdef public long long ring_bytes
    cdef public list requeued
    cdef public dict reread
    cdef public long long backlog
    cdef public unsigned long long cursor
    cdef public unsigned long long next_offset
    cdef public unsigned long long logged_end
    cdef public Consumer turn
    cdef public bint exclusive_use
    cdef public bint dirty
    cdef public unsigned long long pumped_at
    cdef public long returning
    cdef public long long return_left
    cdef public object waiting
    cdef public str error
    cdef public str refusing
    cdef public object on_resumed
    cdef public object on_stalled
    cdef public bint stalled
    cdef public unsigned long long publish_total
    cdef public unsigned long long deliver_total
    cdef public unsigned long long deliver_no_ack_total
    cdef public unsigned long long get_total
    cdef public unsigned long long get_no_ack_total
    cdef public unsigned long long get_empty_total
    cdef public unsigned long long redeliver_total
    cdef public unsigned long long ack_total
    @cython.locals(log=QueueLog, logged=bint, size="long long")
    cpdef bint publish(self, Message message) except -1
    @cython.locals(ring=list)
    cdef void _push(self, Message message, long long size)
    @cython.locals(ring=list, size=Py_ssize_t, head=Py_ssize_t)
    cdef void _grow(self)
    cdef bint _page(self, Message message) except -1
    cpdef void await_durable(self, Run run)
    cpdef void touch(self)
    cpdef bint has_new(self)
    cpdef void begin_return(self)
    cpdef void end_return(self)
    cpdef bint is_returning(self)
    @cython.locals(done=Py_ssize_t, parked=int, consumer=Consumer, message=Message)
    cpdef Py_ssize_t pump(self, Py_ssize_t budget) except -1
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    cpdef void wake(self, Consumer consumer)
    @cython.locals(first=Consumer, last=Consumer)
    cdef void _link(self, Consumer consumer)
    @cython.locals(following=Consumer, previous=Consumer)
    cdef void _unlink(self, Consumer consumer)
    @cython.locals(ring=list, head=Py_ssize_t, message=Message, size="long long")
    cdef Message _pop(self)
    @cython.locals(message=Message, found=Message)
    cdef Message _pop_requeued(self)
    cdef Message _reread(self, unsigned long long offset)
    cdef void _load(self)
    cpdef Message get(self, bint no_ack)
    cpdef void settle(self, Message message, int kind)
    @cython.locals(log=QueueLog)
    cdef void _gone(self, Message message, int kind)
    cpdef void requeue(self, Message message)
    cpdef long long message_count(self)
    cpdef void put_aside(self, Message message)
    cdef void _count_spill(self, Message message)
    cdef bint _take_back(self, Message message) except -1
    cdef long long _charged(self, Message message)
    @cython.locals(index=Py_ssize_t, end=Py_ssize_t, message=Message)
    cpdef bint _drop_some(self, list returned, list position) except -1
