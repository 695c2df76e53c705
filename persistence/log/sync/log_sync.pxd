cimport cython

from persistence.log.sync.jobs cimport Jobs
from persistence.log.sync.marks cimport Marks
from persistence.log.sync.ports cimport Rounds
from persistence.log.sync.round cimport Round, Submission
from persistence.plan cimport Plan


cdef class LogSync(Rounds):
    cdef public object loop
    cdef public object committer  # its jobs wait for the disk
    cdef public Marks marks
    cdef public Jobs jobs
    cdef public object retries
    cdef public object on_round
    cdef public unsigned long rounds
    cdef public double last_round_s
    cdef object _removals
    cdef object _options
    cdef list _dirty
    cdef list _settles
    cdef list _again
    cdef object _checkpoint_retries
    cdef Round _round
    cdef object _settle_timer
    cdef object _journal_timer
    cdef bint _stopped

    cpdef start_round(self)
    cpdef _begin(self, bint drain_journal=*)
    @cython.locals(work=Round, plan=Plan, submission=Submission)
    cpdef _end_plan(self, int error, finished)
    cpdef _finished(self, Round work)
    @cython.locals(submission=Submission)
    cpdef _finish(self, Round work)
