"""Carries out small plans without the interpreter, compiled twin of ``_flush.py``; see there."""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EINTR, EIO, errno
from libc.stdlib cimport free, malloc

cdef extern from "<sys/types.h>" nogil:
    ctypedef long off_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t pwritev(int, const iovec*, int, off_t)

# The system takes 1,024 at once and says EINVAL to more; a log with many small batches has more.
cdef enum:
    IOVEC_MAX = 512

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int)
    ssize_t read(int, void*, size_t)
    ssize_t write(int, const void*, size_t)
    int close(int)

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int, int)
    enum:
        EFD_CLOEXEC
        EFD_NONBLOCK

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
    int poll(pollfd*, unsigned long, int)
    enum:
        POLLIN

cdef extern from "<semaphore.h>" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t*, int, unsigned int)
    int sem_post(sem_t*)
    int sem_wait(sem_t*)
    int sem_destroy(sem_t*)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t*)
    enum:
        SIG_SETMASK

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)
    int pthread_sigmask(int, const sigset_t*, sigset_t*)

cdef struct Write:
    int fd
    off_t position
    iovec* pieces
    int count

cdef struct Job:
    Write* writes
    int count
    iovec* pieces
    # Of the writes, and the first error.
    int written
    int error
    bint stop
    int done
    sem_t wanted


cdef int _write(Write* job) noexcept nogil:
    cdef iovec* pieces = job.pieces
    cdef int count = job.count
    cdef off_t position = job.position
    cdef ssize_t written
    while count > 0:
        if pieces.iov_len == 0:
            pieces += 1
            count -= 1
            continue
        written = pwritev(job.fd, pieces, count if count < IOVEC_MAX else IOVEC_MAX, position)
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        if written == 0:
            return EIO
        position += written
        while count > 0 and written >= <ssize_t> pieces.iov_len:
            written -= pieces.iov_len
            pieces += 1
            count -= 1
        if written > 0:
            pieces.iov_base = <char*> pieces.iov_base + written
            pieces.iov_len -= written
    return 0


cdef int _write_and_sync(Job* job) noexcept nogil:
    cdef int index
    cdef int failed
    for index in range(job.count):
        failed = _write(&job.writes[index])
        if failed != 0:
            return failed
        job.written = index + 1
    if fdatasync(job.writes[job.count - 1].fd) != 0:
        return errno
    return 0


cdef void* _run(void* argument) noexcept nogil:
    cdef Job* job = <Job*> argument
    cdef unsigned long long one = 1
    while True:
        while sem_wait(&job.wanted) != 0:
            pass
        if job.stop:
            return NULL
        job.error = _write_and_sync(job)
        write(job.done, &one, 8)


cdef class Flusher:
    cdef Job _job
    cdef pthread_t _thread
    # Keeps the pieces until they are written.
    cdef object _plan
    cdef readonly bint busy

    def __init__(self):
        cdef sigset_t every
        cdef sigset_t before
        cdef int failed
        self._job.stop = False
        self._job.writes = NULL
        self._job.pieces = NULL
        self.busy = False
        self._job.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self._job.done < 0:
            raise OSError(errno, os.strerror(errno))
        sem_init(&self._job.wanted, 0, 0)
        # Signals belong to the interpreter's main thread.
        sigfillset(&every)
        pthread_sigmask(SIG_SETMASK, &every, &before)
        failed = pthread_create(&self._thread, NULL, _run, &self._job)
        pthread_sigmask(SIG_SETMASK, &before, NULL)
        if failed:
            raise OSError(failed, os.strerror(failed))

    def fileno(self):
        return self._job.done

    def submit(self, plan):
        assert not self.busy, "one plan at a time"
        assert plan.writes, "nothing to write"
        try:
            self._take(plan.writes)
        except BaseException:
            self._free()
            raise
        self._plan = plan
        self._job.written = 0
        self._job.error = 0
        self.busy = True
        sem_post(&self._job.wanted)

    cdef int _take(self, list writes) except -1:
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t index
        cdef Py_ssize_t at = 0
        cdef bytes piece
        cdef list pieces
        for write in writes:
            pieces = write.pieces
            total += len(pieces)
        self._job.writes = <Write*> malloc(sizeof(Write) * len(writes))
        self._job.pieces = <iovec*> malloc(sizeof(iovec) * (total + 1))
        if self._job.writes == NULL or self._job.pieces == NULL:
            raise MemoryError()
        for index in range(len(writes)):
            write = writes[index]
            pieces = write.pieces
            self._job.writes[index].fd = write.target.file().fileno()
            self._job.writes[index].position = write.position
            self._job.writes[index].pieces = self._job.pieces + at
            self._job.writes[index].count = <int> len(pieces)
            for piece in pieces:
                self._job.pieces[at].iov_base = PyBytes_AS_STRING(piece)
                self._job.pieces[at].iov_len = PyBytes_GET_SIZE(piece)
                at += 1
        self._job.count = <int> len(writes)
        return 0

    def finish(self):
        cdef unsigned long long value
        if not self.busy or read(self._job.done, &value, 8) != 8:
            return -1
        return self._ended()

    def wait(self):
        cdef unsigned long long value
        assert self.busy, "no plan is under way"
        cdef pollfd waited
        waited.fd = self._job.done
        waited.events = POLLIN
        with nogil:
            while read(self._job.done, &value, 8) != 8:
                poll(&waited, 1, -1)
        return self._ended()

    cdef int _ended(self) except? -1:
        self._free()
        self._plan.done = self._job.written
        self._plan = None
        self.busy = False
        return self._job.error

    cdef void _free(self):
        free(self._job.writes)
        free(self._job.pieces)
        self._job.writes = NULL
        self._job.pieces = NULL

    def stop(self):
        assert not self.busy, "a plan is under way"
        self._job.stop = True
        sem_post(&self._job.wanted)
        with nogil:
            pthread_join(self._thread, NULL)
            close(self._job.done)
            sem_destroy(&self._job.wanted)
