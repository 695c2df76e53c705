cimport cython
from cpython.array cimport array

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.ready.fifo cimport FifoOrder
from vhosts.queues.ready.returned cimport Returned
from vhosts.queues.ready.ring cimport Ring

cdef Py_ssize_t _READ_MESSAGES
cdef long long _READ_BYTES
cdef Py_ssize_t _READ_PIECES
cdef int _PIECE_BITS


cdef class DroppedLine:
    cdef Ring _line
    cdef Returned _requeued


cdef class QuorumOrder(FifoOrder):
    cdef public array from_all_over
    cdef public Ring line
    cpdef put_back(self, Message message)
    cpdef put_unsent(self, Message message)
    @cython.locals(message=Message, line=Ring)
    cpdef Message pop(self)
    cdef bint _has_requeued(self)
    @cython.locals(message=Message, log=QueueLog, line=Ring)
    cpdef Message peek(self, bint eager)
    @cython.locals(log=QueueLog, each="unsigned long long")
    cdef Message _reread(self, unsigned long long offset)
    @cython.locals(message=Message, offsets=list, size="long long")
    cdef list _next_offsets(self)
