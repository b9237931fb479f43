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

/* See that there is a connection, which was greeted; false and *error if nobody is there. Whatever goes wrong after the first byte raises. */
static bool
Connect(int *error)
{
	if (IsStale())
		DropSocket(&connection);
	if (connection != PGINVALID_SOCKET)
		return true;
	if (!OpenSocket(&connection, error))
		return false;
	SayHello(connection);
	return true;
}

/* Like Ask, but an engine that is not there is a false result and *error, not an error that is raised. */
bool
TryAsk(char type, const char *body, char expected, const char *source, text **reply, int *error)
{
	StringInfoData answer;
	bool		connected = false,
				answered = false;

	PG_TRY();
	{
		connected = Connect(error);
		if (connected)
			answered = Exchange(connection, type, body, expected, &answer);
	}
	PG_CATCH();
	{
		DropSocket(&connection);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!connected)
		return false;
	if (!answered)
		RaiseEngineError(&answer, source);
	*reply = cstring_to_text_with_len(answer.data, answer.len);
	return true;
}

/*
 * One request and its answer, which is of the type expected. An error that the
 * engine reports leaves the connection usable; any other way out closes it.
 */
text *
Ask(char type, const char *body, char expected, const char *source)
{
	text	   *reply;
	int			error;

	if (!TryAsk(type, body, expected, source, &reply, &error))
		ReportUnreachable("connect to", error);
	return reply;
}
