/*
 * public.c: ordinary tables that a release joins are read whole, beforehand.
 *
 * Were they left to the inner plan, which of their rows, pages and index
 * entries it touches would depend on raw values, and would show: in
 * pg_stat_user_tables, in predicate locks, in what a later EXPLAIN (BUFFERS)
 * finds in memory. So each is copied into memory by one sequential scan, before
 * any raw value is in this process, and the inner query reads the copy.
 */
#include "privid.h"

#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

/* Copy a table, as the active snapshot sees it. */
static Tuplestorestate *
CopyTable(Relation relation, double *rows)
{
	Tuplestorestate *copy = tuplestore_begin_heap(true, false, work_mem);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);

	*rows = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		tuplestore_puttupleslot(copy, slot);
		(*rows)++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return copy;
}

/* Let a range table entry stand for the copy. */
static void
ReplaceEntry(RangeTblEntry *rte, QueryEnvironment *env)
{
	Relation	relation = table_open(rte->relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(relation);
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = psprintf("public %u %p", rte->relid, (void *) rte);
	enr->md.reliddesc = rte->relid;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->reldata = CopyTable(relation, &enr->md.enrtuples);
	register_ENR(env, enr);

	rte->rtekind = RTE_NAMEDTUPLESTORE;
	rte->enrname = enr->md.name;
	rte->enrtuples = enr->md.enrtuples;
	rte->inh = false;
	rte->requiredPerms = 0;		/* checked when the statement began */
	rte->coltypes = rte->coltypmods = rte->colcollations = NIL;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		rte->coltypes = lappend_oid(rte->coltypes, att->attisdropped ? InvalidOid : att->atttypid);
		rte->coltypmods = lappend_int(rte->coltypmods, att->attisdropped ? 0 : att->atttypmod);
		rte->colcollations = lappend_oid(rte->colcollations, att->attisdropped ? InvalidOid : att->attcollation);
	}
	table_close(relation, NoLock);
}

static bool
ReplaceWalker(Node *node, void *env)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && rte->inFromCl && !IsPrividTable(rte->relid))
			ReplaceEntry(rte, env);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, ReplaceWalker, env, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, ReplaceWalker, env);
}

/* Copy all ordinary tables of a release, and make the query read the copies. */
QueryEnvironment *
CopyPublicTables(Query *query)
{
	QueryEnvironment *env = create_queryEnv();

	ReplaceWalker((Node *) query, env);
	return env;
}
