from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.tick cimport Tick
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.contents cimport Contents


cdef class Trouble:
    cdef public str reason
    cdef public BaseException error


cdef class NodePort:
    pass


cdef class ReadyOrder:
    cdef public Contents contents
    cdef public Tick tick
    cdef public QueueLog log
    cdef public NodePort node
    cdef public str incarnation
    cdef public long long count
    cdef public long long body_bytes
    cdef public long long transient_bytes
    cdef public bint wanted
    cdef public long long window
    cdef public long returning
    cdef public long long return_left
    cdef public long long swept_us
    cdef public Trouble trouble
    cpdef bint push(self, Message message, bint logged) except -1
    cpdef Message pop(self)
    cpdef Message peek(self, bint eager)
    cpdef void begin_sweep(self, long long now_us)
    cpdef Message peek_swept(self)
    cpdef Message pop_swept(self)
    cpdef put_back(self, Message message)
    cpdef put_unsent(self, Message message)
    cpdef void begin_return(self, long long unacked)
    cpdef bint end_return(self)
    cpdef bint is_returning(self)


cpdef Message logged_message(unsigned long long offset)
