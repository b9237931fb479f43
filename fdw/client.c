/*
 * client.c: this backend's connection to the engine, for requests.
 *
 * It is made when first needed and kept. A request that does not end well
 * (error, cancel) closes it, which tells the engine to stop at once.
 */
#include "privid.h"

#include <sys/socket.h>

#include "utils/builtins.h"

static pgsocket connection = PGINVALID_SOCKET;

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

/* A connection that was greeted, or *error. Whatever goes wrong after the first byte raises. */
static bool
Connect(int *error)
{
	if (IsStale())
		DropSocket(&connection);
	if (connection != PGINVALID_SOCKET)
		return true;
	if (!OpenSocket(&connection, error))
		return false;
	PG_TRY();
	{
		SayHello(connection);
	}
	PG_CATCH();
	{
		DropSocket(&connection);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return true;
}

/* A connection, or an error. */
static void
EnsureConnected(void)
{
	int			error;

	if (!Connect(&error))
		ReportUnreachable("connect to", error);
}

/*
 * One request and its answer, which is of the type expected. An error that the
 * engine reports leaves the connection usable; any other way out closes it.
 */
text *
Ask(char type, const char *body, char expected, const char *source)
{
	StringInfoData reply;
	char		answer = 0;

	PG_TRY();
	{
		EnsureConnected();
		SendMessage(connection, type, body);
		initStringInfo(&reply);
		answer = ReceiveMessage(connection, &reply);
		if (answer != 'E' && answer != expected)
			ReportUnreachable("understand", 0);
	}
	PG_CATCH();
	{
		DropSocket(&connection);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (answer == 'E')
		RaiseEngineError(&reply, source);
	return cstring_to_text_with_len(reply.data, reply.len);
}

/* Like Ask, but an engine that is not there is a false result, not an error. */
bool
TryAsk(char type, const char *body, char expected, text **reply)
{
	int			error;

	if (!Connect(&error))
		return false;
	*reply = Ask(type, body, expected, NULL);
	return true;
}
