cimport cython

from amqp_router.protocol.message cimport Message
from persistence.log.queue.batches cimport Batches
from persistence.log.queue.copies cimport Copies
from persistence.log.queue.log_reader cimport LogReader, ReadLog
from persistence.log.queue.saving cimport Saving
from persistence.log.queue.taken cimport Taken
from persistence.log.sync.checkpoints cimport Checkpoints
from persistence.log.sync.due cimport Due


cdef class Caretaker:
    pass


cdef class QueueLog(ReadLog):
    cdef public str incarnation
    cdef public unsigned int number
    cdef public unsigned long long start
    cdef public unsigned long long durable
    cdef public unsigned long long end
    cdef public unsigned long long high_watermark
    cdef public unsigned long long redelivered_floor
    cdef public bint passing
    cdef public bint deleted
    cdef public Batches batches
    cdef public LogReader reader
    cdef public Checkpoints checkpoints
    cdef public Copies copies
    cdef public Due due
    cdef public Taken taken
    cdef public Saving saving
    cdef public BaseException failed
    cdef public object listener  # a queue, which knows this module and has another base
    cdef public object writer  # of the sync, for which it is kept here; not compiled
    cdef Caretaker _caretaker

    cpdef append(self, Message message, long long now_us)
    cpdef reserve(self, Message message)
    cpdef settle(self, unsigned long long offset, unsigned int gap, unsigned int kind)
    @cython.locals(limit=cython.ulonglong)
    cpdef read(self, unsigned long long from_offset, unsigned long long limit_offset, long long max_messages,
               unsigned long long max_bytes, bint skips_returned=*)
