from persistence.log.sync.writer cimport PartitionWriter
from persistence.plan cimport Plan, Write


cdef class Submission:
    cdef public object log  # a queue's log, which knows this module
    cdef public PartitionWriter writer
    cdef public list batches
    cdef public Write write
    cdef public bint again
    cdef public unsigned long long end
    cdef public unsigned long generation
    cdef public bytes checkpoint
    cdef public unsigned long checkpoint_number
    cdef public tuple index
    cdef public list removed
    cdef public BaseException error
    cdef public BaseException checkpoint_error


cdef class Round:
    cdef public list submissions
    cdef public double started
    cdef public long long now_us
    cdef public bint drain_journal
    cdef public Plan plan
    cdef public list failures
    cdef public bint journal_pending
