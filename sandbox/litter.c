/*
 * What a zygote's children do before Python goes on in them. In C, because each page that a child writes to is a fault and a copy, which is most
 * of what it costs, and Python writes to every object that it looks at: this way a child touches Python's pages only when it has a chunk.
 *
 * Runs inside the sandbox, called by zygote.py; nothing here is trusted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* fork() into new namespaces: one system call. In a process of one thread nothing must be done around it but to tell the C library in the
 * child its new number, which clone does when it is given the address. */
static long
fork_apart(unsigned long flags, void *tid)
{
#if defined(__x86_64__)
	return syscall(SYS_clone, flags, NULL, NULL, tid, NULL);
#else
	return syscall(SYS_clone, flags, NULL, NULL, NULL, tid);
#endif
}

/* Gives up what only a zygote needs. */
static void
part(const struct sock_fprog *filter)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct nothing[2] = {{0, 0, 0}, {0, 0, 0}};

	syscall(SYS_setsid); /* or a signal to its process group would reach the other children */
	syscall(SYS_capset, &header, nothing);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0);
}

/* To be frozen, given a chunk, and thawed. This call ends when it is interrupted, as it is by being frozen: a child that is thawed looks at
 * once, and does nothing until then. */
static void
await(const char *chunk)
{
	sigset_t none;
	struct timespec second = {1, 0};

	sigemptyset(&none);
	while (access(chunk, F_OK) != 0)
		sigtimedwait(&none, NULL, &second);
}

/* Standard input, output and error, the latter two under names that the program is not to find. */
static int
furnish(const char *output, const char *errors)
{
	int ends = O_WRONLY | O_APPEND;

	return chdir("/tmp") == 0 && open("/dev/null", O_RDONLY) == 0 && open(output, ends) == 1 && open(errors, ends) == 2 &&
		unlink(output) == 0 && unlink(errors) == 0;
}

/* Makes so many children. Returns 0 in a child that has its chunk, 1 in their mother, and -1 there if a child could not be made. */
int
litter(int children, unsigned long flags, const void *instructions, int length, const char *chunk, const char *output, const char *errors)
{
	struct sock_fprog filter = {(unsigned short) length, (struct sock_filter *) instructions};
	void *tid = NULL;

	if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) != 0)
		return -1;
	while (children-- > 0)
	{
		long child = fork_apart(flags, tid);

		if (child < 0)
			return -1;
		if (child == 0)
		{
			part(&filter);
			await(chunk);
			if (!furnish(output, errors))
				_exit(1);
			return 0;
		}
	}
	return 1;
}
