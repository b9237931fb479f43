/*
 * client.c: this backend's connection to the engine.
 *
 * One connection, made when first needed and kept. A request that does not
 * end well (error, cancel) closes it, which tells the engine to stop at once.
 * All waiting is interruptible.
 */
#include "privid.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#define MAX_MESSAGE (64 * 1024 * 1024)

static pgsocket connection = PGINVALID_SOCKET;

void
DropConnection(void)
{
	if (connection == PGINVALID_SOCKET)
		return;
	close(connection);
	ReleaseExternalFD();
	connection = PGINVALID_SOCKET;
}

static void
ReportUnreachable(const char *what, int error)
{
	errno = error;
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_ENGINE),
			 error ? errmsg("could not %s the engine: %m", what) : errmsg("could not %s the engine", what),
			 errdetail("Nothing runs without the engine; no raw value has left it."),
			 errhint("Start it with privid up, or ask the operator; privid status shows what is running.")));
}

/* Wait until the socket is ready, taking interrupts. */
static void
WaitForSocket(uint32 event)
{
	int			rc = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | event,
									   connection, -1, PG_WAIT_EXTENSION);

	if (rc & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
Send(const char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		n = send(connection, data, length, MSG_NOSIGNAL);

		if (n > 0)
		{
			data += n;
			length -= n;
		}
		else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			ReportUnreachable("write to", errno);
		else
			WaitForSocket(WL_SOCKET_WRITEABLE);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
Receive(char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		n = recv(connection, data, length, 0);

		if (n > 0)
		{
			data += n;
			length -= n;
		}
		else if (n == 0)
			ReportUnreachable("read from", 0);
		else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			ReportUnreachable("read from", errno);
		else
			WaitForSocket(WL_SOCKET_READABLE);
	}
}

static void
SendMessage(char type, const char *body)
{
	size_t		length = strlen(body);
	uint32		total = length + 1;
	char		header[5];

	if (length >= MAX_MESSAGE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the release is too large")));
	memcpy(header, &total, 4);
	header[4] = type;
	Send(header, 5);
	Send(body, length);
}

/* Read one message; the body is palloc'd and ends with a NUL beyond its length. */
static char
ReceiveMessage(StringInfo body)
{
	uint32		total;
	char		type;

	Receive((char *) &total, 4);
	if (total < 1 || total > MAX_MESSAGE)
		ReportUnreachable("understand", 0);
	Receive(&type, 1);
	body->len = total - 1;
	body->maxlen = total;
	body->cursor = 0;
	body->data = MemoryContextAllocHuge(CurrentMemoryContext, total);
	Receive(body->data, total - 1);
	body->data[total - 1] = '\0';
	return type;
}

/* Raise the error that the engine sent. */
void
RaiseEngineError(text *error)
{
	char	   *state = JsonFieldString(error, "sqlstate");
	char	   *message = JsonFieldString(error, "message");
	char	   *detail = JsonFieldString(error, "detail");
	char	   *hint = JsonFieldString(error, "hint");
	int			position = JsonFieldInt(error, "position", -1);
	int			code = ERRCODE_PRIVID_ENGINE;

	if (state && strlen(state) == 5)
		code = MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
	ereport(ERROR,
			(errcode(code),
			 errmsg_internal("%s", message ? message : "the engine failed"),
			 detail ? errdetail_internal("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0,
			 errposition(CharacterPosition(request_source, position))));
}

static void
Connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	StringInfoData hello,
				reply;
	char		type;

	if (privid_socket == NULL || privid_socket[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("parameter \"privid.socket\" is not set"),
				 errhint("Set it to the engine's socket in postgresql.conf.")));
	if (strlcpy(address.sun_path, privid_socket, sizeof(address.sun_path)) >= sizeof(address.sun_path))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("parameter \"privid.socket\" is too long")));
	if (!AcquireExternalFD())
		ReportUnreachable("connect to", errno);
	connection = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connection == PGINVALID_SOCKET)
	{
		int			error = errno;

		ReleaseExternalFD();
		ReportUnreachable("connect to", error);
	}
	(void) fcntl(connection, F_SETFD, FD_CLOEXEC);
	if (connect(connection, (struct sockaddr *) &address, sizeof(address)) < 0)
	{
		int			error = errno;

		DropConnection();
		ReportUnreachable("connect to", error);
	}
	pg_set_noblock(connection);

	initStringInfo(&hello);
	appendStringInfoChar(&hello, '{');
	AppendJsonInt(&hello, "protocol", PRIVID_PROTOCOL);
	AppendJsonString(&hello, "version", PRIVID_VERSION);
	AppendJsonInt(&hello, "pid", MyProcPid);
	AppendJsonString(&hello, "database", get_database_name(MyDatabaseId));
	appendStringInfoChar(&hello, '}');
	SendMessage('H', hello.data);
	type = ReceiveMessage(&reply);
	if (type == 'E')
	{
		DropConnection();
		RaiseEngineError(cstring_to_text_with_len(reply.data, reply.len));
	}
	if (type != 'h')
		ReportUnreachable("understand", 0);
}

/* Has the engine closed the connection since it was last used? */
static bool
IsStale(void)
{
	char		byte;
	ssize_t		n;

	if (connection == PGINVALID_SOCKET)
		return false;
	n = recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return !(n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

static void
EnsureConnected(void)
{
	if (IsStale())
		DropConnection();
	if (connection == PGINVALID_SOCKET)
		Connect();
}

/*
 * One request and its answer, which is of type expected or other (if not 0).
 * An error that the engine reports leaves the connection usable; any other
 * way out closes it.
 */
text *
Ask(char type, const char *body, char expected, char other, char *got)
{
	StringInfoData reply;
	char		answer = 0;

	PG_TRY();
	{
		EnsureConnected();
		SendMessage(type, body);
		answer = ReceiveMessage(&reply);
		if (answer != 'E' && answer != expected && (other == 0 || answer != other))
			ReportUnreachable("understand", 0);
	}
	PG_CATCH();
	{
		DropConnection();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (answer == 'E')
		RaiseEngineError(cstring_to_text_with_len(reply.data, reply.len));
	if (got)
		*got = answer;
	return cstring_to_text_with_len(reply.data, reply.len);
}

/* Like Ask, but an engine that cannot be reached is a false result, not an error. */
bool
TryAsk(char type, const char *body, char expected, text **reply)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool connected = true;

	PG_TRY();
	{
		EnsureConnected();
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		MemoryContextSwitchTo(caller);
		DropConnection();
		if (code != ERRCODE_PRIVID_ENGINE)
			PG_RE_THROW();
		FlushErrorState();
		connected = false;
	}
	PG_END_TRY();
	if (connected)
		*reply = Ask(type, body, expected, 0, NULL);
	return connected;
}

/* Fetch all rows of a scan. */
void
AskRows(const char *body, RowReader *reader)
{
	StringInfoData message;
	char		type = 0;

	PG_TRY();
	{
		SendMessage('S', body);
		while ((type = ReceiveMessage(&message)) == 'B')
			AddRows(reader, &message);
		if (type != 'e' && type != 'E')
			ReportUnreachable("understand", 0);
	}
	PG_CATCH();
	{
		DropConnection();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (type == 'E')
		RaiseEngineError(cstring_to_text_with_len(message.data, message.len));
}
