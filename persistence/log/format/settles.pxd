cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol._buf cimport Buf


cdef class Chunk:
    cdef public long long number
    cdef public bytearray bits
    cdef public unsigned int ones
    cdef public bytearray counts


cdef class SettleState:
    cdef public dict chunks
    cdef public unsigned long long settled_below
    cdef public long long live
    cdef Chunk _last

    @cython.locals(number=cython.ulonglong, stop=cython.ulonglong)
    cpdef int note_gap(self, unsigned long long first, unsigned long long end) except -1
    @cython.locals(chunk=Chunk, number=cython.ulonglong, place=cython.uint, mask=cython.uint, bits=bytearray)
    cpdef int settle(self, unsigned long long offset) except -1
    @cython.locals(number=cython.ulonglong, stop=cython.ulonglong, settled=cython.longlong)
    cpdef long long settle_range(self, unsigned long long first, unsigned long long end) except -1
    @cython.locals(chunk=Chunk, number=cython.ulonglong, place=cython.uint, bits=bytearray)
    cpdef bint is_settled(self, unsigned long long offset) except -1
    @cython.locals(chunk=Chunk, number=cython.ulonglong, place=cython.uint, value=cython.uint, bit=cython.uint, bits=bytearray, size=cython.uint)
    cpdef unsigned long long next_unsettled(self, unsigned long long offset, unsigned long long limit) except? 0
    cpdef long long unsettled_in(self, unsigned long long first, unsigned long long end) except -1
    @cython.locals(chunk=Chunk, place=cython.uint)
    cpdef unsigned int returned(self, unsigned long long offset) except? 4294967295
    @cython.locals(chunk=Chunk)
    cpdef bint has_returns(self, unsigned long long offset) except -1
    @cython.locals(chunk=Chunk, place=cython.uint, counts=bytearray)
    cpdef set_returned(self, unsigned long long offset, unsigned int count)
    cpdef advance(self, unsigned long long end)
    @cython.locals(out=Buf, first=cython.ulonglong, end=cython.ulonglong, returns=cython.uint, found=cython.uint,
                   chunk=Chunk, counts=bytearray, bits=bytearray, number=cython.ulonglong, offset=cython.ulonglong,
                   low=Py_ssize_t, size=Py_ssize_t, is_settled=bint)
    cpdef tuple pack_returns(self)
    @cython.locals(chunk=Chunk)
    cdef Chunk _chunk(self, unsigned long long number)
    cdef int _full(self, Chunk chunk) except -1
    @cython.locals(bits=bytearray, changed=cython.uint)
    cdef int _fill(self, Chunk chunk, unsigned int low, unsigned int high) except -1


@cython.final
cdef class SettleRun:
    cdef public unsigned long long first
    cdef public unsigned long long count
    cdef public unsigned int kind
    cdef public unsigned int returns
    cdef public unsigned long long settled


@cython.locals(run=SettleRun)
cpdef SettleRun settle_run(unsigned long long first, unsigned long long count, unsigned int kind, unsigned int returns,
                           unsigned long long settled=*)


cdef class SettleRuns:
    cdef public unsigned long count
    cdef unsigned long long _first
    cdef unsigned long long _end
    cdef unsigned int _kind
    cdef unsigned int _returns
    cdef unsigned long long _settled
    cdef list _runs

    cdef bint extend(self, unsigned long long offset, unsigned int gap, unsigned int kind, unsigned int returns,
                     unsigned int settled) except -1
    cdef begin(self, unsigned long long offset, unsigned int kind, unsigned int returns, unsigned int settled)
    cdef _close(self)
    cdef list take(self)


@cython.locals(out=Buf, run=SettleRun)
cpdef bytes pack_runs(list runs)
cdef int _put_run(Buf out, unsigned long long first, unsigned long long count, unsigned int kind,
                  unsigned int returns) except -1

cdef Chunk FULL
cdef bytes _ONES
