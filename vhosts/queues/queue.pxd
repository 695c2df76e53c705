cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.memory cimport MemoryBudget
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.handle cimport Consumer
from vhosts.queues cimport state as states
from vhosts.queues.destination cimport Asker
from vhosts.queues.dispatch cimport Dispatch
from vhosts.queues.drops cimport Drops
from vhosts.queues.mortal cimport MortalQueue
from vhosts.queues.ready.order cimport ReadyOrder

cdef unsigned long long _NO_EXPIRY
cdef Py_ssize_t _AT_ONCE_UNITS
cdef int _REDELIVERY_EXTRA
cdef int _BLIND_EXTRA
cdef int _PARKED_PER_UNIT
cdef unsigned int _COUNT_MAX


cdef class Queue(MortalQueue):
    cdef public unsigned long long next_offset
    @cython.locals(log=QueueLog, logged=bint)
    cpdef bint publish(self, Message message) except -1
    cdef _watch_published(self, Message message)
    @cython.locals(dispatch=Dispatch, consumer=Consumer, is_timed=bint, looks=int, done=Py_ssize_t)
    cdef _shorten(self)
    cpdef bint has_new(self)
    cpdef void begin_return(self)
    cpdef void end_return(self)
    cpdef bint is_returning(self)
    @cython.locals(done=Py_ssize_t, parked=int, consumer=Consumer, message=Message, head=Message,
                   account=MemoryBudget, ready=ReadyOrder, dispatch=Dispatch, drops=Drops, now_us="long long")
    cpdef Py_ssize_t pump(self, Py_ssize_t budget) except -1
    cdef bint _has_room(self, Message message) except -1
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    @cython.locals(done=Py_ssize_t)
    cpdef Py_ssize_t take_turn(self, Py_ssize_t budget) except -1
    @cython.locals(message=Message)
    cpdef consume(self, Consumer consumer, Asker asker)
    cpdef get(self, bint no_ack, Asker asker)
    cpdef count(self, Asker asker)
    @cython.locals(message=Message)
    cpdef Message take(self, bint no_ack)
    cpdef void settle(self, Message message, int kind)
    cpdef void return_unsent(self, Message message)
    cpdef void requeue(self, Message message)
    cdef _came_back(self, Message message)
    cpdef put_aside(self, Message message)
