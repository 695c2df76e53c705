cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.format.messages cimport MessagesBuilder
from persistence.log.format.returns cimport ReturnRuns
from persistence.log.format.settles cimport SettleRuns, SettleState
from persistence.log.queue.closed cimport Closed
from persistence.log.queue.epochs cimport LogEpochs
from persistence.log.queue.taken cimport Taken
from persistence.log.sync.checkpoints cimport Checkpoints

cdef unsigned long long _U32_MAX
cdef unsigned long long _RESERVED_MAX


@cython.final
cdef class Batches:
    cdef public Closed closed
    cdef public LogEpochs epochs
    cdef public Taken taken
    cdef public SettleState state
    cdef public ReturnRuns returned
    cdef public unsigned long long end
    cdef public long long last_us
    cdef public unsigned long generation
    cdef Checkpoints _checkpoints
    cdef unsigned long long _batch_bytes_max
    cdef unsigned int _gap
    cdef MessagesBuilder _builder
    cdef SettleRuns _runs

    @cython.locals(builder=MessagesBuilder, size=cython.ulonglong, offset=cython.ulonglong)
    cdef int append(self, Message message, long long now_us) except -1
    cdef _begin_batch(self, long long now_us)
    @cython.locals(builder=MessagesBuilder)
    cdef _append_large(self, Message message, unsigned long long offset, long long now_us)
    @cython.locals(offset=cython.ulonglong)
    cdef bint reserve(self, Message message) except -1
    cdef unsigned long long _take_offset(self) except? 0
    cdef _close_messages(self)
    cpdef rest(self)
    cpdef close_all(self)
    cpdef bint close(self, unsigned long long offset) except -1
    @cython.locals(returns=cython.uint, settled=cython.uint)
    cdef bint settle(self, unsigned long long offset, unsigned int gap, unsigned int kind) except -1
