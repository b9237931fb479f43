/*
 * wire.c: messages to the engine and back, over its socket. Both libraries have it.
 *
 * A scan has a connection of its own, on which rows come as they are read; it
 * goes with the memory of the query. All waiting is interruptible.
 */
#include "shared.h"

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

/* Close a connection; the engine stops what it does for it. */
void
DropSocket(pgsocket *sock)
{
	if (*sock == PGINVALID_SOCKET)
		return;
	close(*sock);
	ReleaseExternalFD();
	*sock = PGINVALID_SOCKET;
}

/* The error of an engine that does not answer, or not as it should. */
void
ReportUnreachable(const char *what, int error)
{
	errno = error;
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_ENGINE),
			 error ? errmsg("could not %s the engine: %m", what) : errmsg("could not %s the engine", what),
			 errdetail("Nothing runs without the engine; no raw value has left it."),
			 errhint("Start it with privid up, or ask the operator; privid status shows what is running.")));
}

/* Milliseconds until the next try, where as many wait at the engine's socket as the system lets. */
#define NEXT_TRY 10

/* Wait until the socket is ready, or for WL_TIMEOUT a little while, taking interrupts. */
static void
WaitForSocket(pgsocket sock, uint32 event)
{
	int			rc = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | event,
									   sock, NEXT_TRY, PG_WAIT_EXTENSION);

	if (rc & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Write all of it. */
static void
Send(pgsocket sock, const char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		n = send(sock, data, length, MSG_NOSIGNAL);

		if (n > 0)
		{
			data += n;
			length -= n;
		}
		else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			ReportUnreachable("write to", errno);
		else
			WaitForSocket(sock, WL_SOCKET_WRITEABLE);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Read all of it. */
static void
Receive(pgsocket sock, char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		n = recv(sock, data, length, 0);

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
			WaitForSocket(sock, WL_SOCKET_READABLE);
	}
}

/* Write one message. */
static void
SendMessage(pgsocket sock, char type, const char *body)
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
	Send(sock, header, 5);
	Send(sock, body, length);
}

/* Read one message into the buffer, which grows as needed; a NUL follows its end. */
static char
ReceiveMessage(pgsocket sock, StringInfo body)
{
	uint32		total;
	char		type;

	Receive(sock, (char *) &total, 4);
	if (total < 1 || total > MAX_MESSAGE)
		ReportUnreachable("understand", 0);
	Receive(sock, &type, 1);
	resetStringInfo(body);
	enlargeStringInfo(body, total);
	Receive(sock, body->data, total - 1);
	body->len = total - 1;
	body->data[body->len] = '\0';
	return type;
}

/* One message and its answer, which is of the type expected; false if it is an error that the engine reports. */
bool
Exchange(pgsocket sock, char type, const char *body, char expected, StringInfo reply)
{
	char		answer;

	SendMessage(sock, type, body);
	initStringInfo(reply);
	answer = ReceiveMessage(sock, reply);
	if (answer != 'E' && answer != expected)
		ReportUnreachable("understand", 0);
	return answer == expected;
}

/* Raise the error that the engine sent; its position is a place in source. */
void
RaiseEngineError(StringInfo body, const char *source)
{
	text	   *error = cstring_to_text_with_len(body->data, body->len);
	char	   *state = JsonFieldString(error, "sqlstate");
	char	   *message = JsonFieldString(error, "message");
	char	   *detail = JsonFieldString(error, "detail");
	char	   *hint = JsonFieldString(error, "hint");
	char	   *position = JsonFieldString(error, "position");
	int			code = ERRCODE_PRIVID_ENGINE;

	if (state && strlen(state) == 5)
		code = MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
	ereport(ERROR,
			(errcode(code),
			 errmsg_internal("%s", message ? message : "the engine failed"),
			 detail ? errdetail_internal("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0,
			 position ? errposition(CharacterPosition(source, pg_strtoint32(position))) : 0));
}

/* Open a socket to the engine; if that fails, *error is why and nothing is left open. An interrupt leaves it open: its owner drops it. */
bool
OpenSocket(pgsocket *sock, int *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (privid_socket == NULL || privid_socket[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("parameter \"privid.socket\" is not set"),
				 errhint("Set it to the engine's socket in postgresql.conf.")));
	if (strlcpy(address.sun_path, privid_socket, sizeof(address.sun_path)) >= sizeof(address.sun_path))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("parameter \"privid.socket\" is too long")));
	*error = EMFILE;
	if (!AcquireExternalFD())
		return false;
	*sock = socket(AF_UNIX, SOCK_STREAM, 0);
	*error = errno;
	if (*sock == PGINVALID_SOCKET)
	{
		ReleaseExternalFD();
		return false;
	}
	(void) fcntl(*sock, F_SETFD, FD_CLOEXEC);
	pg_set_noblock(*sock);
	while (connect(*sock, (struct sockaddr *) &address, sizeof(address)) < 0)
	{
		*error = errno;
		if (*error != EAGAIN && *error != EINTR)
		{
			DropSocket(sock);
			return false;
		}
		WaitForSocket(PGINVALID_SOCKET, WL_TIMEOUT);
	}
	return true;
}

/* Say who we are, as the first message of a connection. */
void
SayHello(pgsocket sock)
{
	StringInfoData hello,
				reply;

	initStringInfo(&hello);
	appendStringInfoChar(&hello, '{');
	AppendJsonInt(&hello, "protocol", PRIVID_PROTOCOL);
	AppendJsonString(&hello, "version", PRIVID_VERSION);
	AppendJsonInt(&hello, "pid", MyProcPid);
	AppendJsonString(&hello, "database", get_database_name(MyDatabaseId));
	AppendJsonString(&hello, "login", GetUserNameFromId(GetSessionUserId(), false));
	appendStringInfoChar(&hello, '}');
	if (!Exchange(sock, 'H', hello.data, 'h', &reply))
		RaiseEngineError(&reply, NULL);
}

/* ------------------------------------------------------------------ rows of a scan */

struct RowStream
{
	pgsocket	sock;
	bool		over;
	MemoryContextCallback callback;
};

/* The memory of the query goes, and with it the connection. */
static void
CloseStream(void *stream)
{
	DropSocket(&((RowStream *) stream)->sock);
}

/* A connection of its own, which lasts as long as the current memory context. */
RowStream *
OpenStream(void)
{
	RowStream  *stream = palloc0(sizeof(RowStream));
	int			error;

	stream->sock = PGINVALID_SOCKET;
	stream->callback.func = CloseStream;
	stream->callback.arg = stream;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &stream->callback);
	if (!OpenSocket(&stream->sock, &error))
		ReportUnreachable("connect to", error);
	SayHello(stream->sock);
	return stream;
}

/* One request on it, and its answer. */
text *
AskStream(RowStream *stream, char type, const char *body, char expected)
{
	StringInfoData reply;

	if (!Exchange(stream->sock, type, body, expected, &reply))
		RaiseEngineError(&reply, NULL);
	return cstring_to_text_with_len(reply.data, reply.len);
}

/* Begin to fetch the rows of a scan. */
void
AskRows(RowStream *stream, const char *body)
{
	SendMessage(stream->sock, 'S', body);
	stream->over = false;
}

/* The next message with rows; false at their end, when the connection can be asked again. */
bool
NextRows(RowStream *stream, StringInfo message)
{
	char		type;

	if (stream->over)
		return false;
	type = ReceiveMessage(stream->sock, message);
	if (type == 'B')
		return true;
	stream->over = true;
	if (type == 'E')
		RaiseEngineError(message, NULL);
	if (type != 'e')
		ReportUnreachable("understand", 0);
	return false;
}
