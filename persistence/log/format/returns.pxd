cimport cython

from amqp_router.protocol cimport flags
from persistence.log.format.settles cimport Chunk, SettleRun, SettleState, pack_runs, settle_run

cdef unsigned int _RETURNS_MAX


cdef class ReturnRuns:
    cdef public bint is_kept
    cdef public bint is_lost
    cdef list _runs
    cdef unsigned long long _weight
    cdef unsigned long long _limit
    cdef Py_ssize_t _runs_limit

    @cython.locals(runs=list, last=SettleRun)
    cpdef note(self, unsigned long long first, unsigned long long count, unsigned int returns, SettleState state)
    @cython.locals(found=list, run=SettleRun, place=Py_ssize_t)
    cpdef list runs(self, SettleState state)


@cython.locals(chunk=Chunk, counts=bytearray, place=cython.uint)
cpdef unsigned long long next_fresh(SettleState state, unsigned long long offset, unsigned long long limit) except? 0
@cython.locals(part=SettleRun, returns=cython.uint, found=cython.uint, offset=cython.ulonglong, end=cython.ulonglong,
               number=cython.ulonglong, stop=cython.ulonglong, chunk=Chunk, counts=bytearray, bits=bytearray,
               low=Py_ssize_t, is_settled=bint)
cdef list _left(SettleRun run, SettleState state, set seen)
