BEGIN TRANSACTION;
CREATE TABLE accounts (
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	name TEXT NOT NULL, 
	full_name TEXT NOT NULL, 
	creator_id TEXT, 
	bio TEXT, 
	avatar_url TEXT, 
	banner_url TEXT, 
	email_domain TEXT, 
	links_json TEXT DEFAULT '{}' NOT NULL, 
	closure_requested_at TEXT, 
	closure_requested_by_id TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "accounts" VALUES('019a09f9-85b9-778f-9667-04013db2b9a2','user','ada','Ada Lindgren','019a09f9-85b9-778f-9667-04013db2b9a2','Head of support. Writes everything down.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-10-22T03:32:19.001000Z','2026-06-19T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019a2faa-2317-77ed-9635-31edc861df73','user','grace','Grace Okonkwo','019a2faa-2317-77ed-9635-31edc861df73','Runs operations.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-10-29T11:11:10.615000Z','2026-10-21T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019a5694-8832-7cab-8d16-49fca7b250b8','user','alan','Alan Brandt','019a5694-8832-7cab-8d16-49fca7b250b8','Data analyst.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-11-06T00:32:46.130000Z','2026-06-22T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019a7714-7d52-7db1-8db7-560a2190636f','user','katherine','Katherine Moreau','019a7714-7d52-7db1-8db7-560a2190636f','Data scientist, orbits and orders.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-11-12T08:00:22.866000Z','2026-07-10T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019a9a55-7935-7f3c-9148-a6f2344ff820','user','edsger','Edsger Vos','019a9a55-7935-7f3c-9148-a6f2344ff820','Platform engineer.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-11-19T04:18:04.213000Z','2026-06-28T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019ac048-ba3a-78d4-afe2-9a601f44911f','user','barbara','Barbara Nyström','019ac048-ba3a-78d4-afe2-9a601f44911f','Release manager.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-11-26T13:09:43.098000Z','2026-09-18T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019ae69e-7f56-7904-b4aa-ac2cd07e0615','user','margaret','Margaret Keane','019ae69e-7f56-7904-b4aa-ac2cd07e0615','On-call lead.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-12-03T23:48:58.326000Z','2026-09-22T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019b06d9-c61b-770a-a209-0cb4df93c25b','user','tim','Tim Laurent','019b06d9-c61b-770a-a209-0cb4df93c25b','Sales, northern region.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-12-10T06:01:33.979000Z','2026-08-29T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019b2b36-62b9-792b-8040-18004eea8339','user','hedy','Hedy Karlsson','019b2b36-62b9-792b-8040-18004eea8339','Radio and sensors.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-12-17T07:29:03.161000Z','2026-10-25T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019b5247-f083-747d-874e-37a1e7656a15','user','charles','Charles Abbot','019b5247-f083-747d-874e-37a1e7656a15',NULL,NULL,NULL,NULL,'{}',NULL,NULL,'2025-12-24T21:33:24.995000Z','2026-05-23T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','user','radia','Radia Castell','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','Keeps the shop of Northwind running.',NULL,NULL,NULL,'{}',NULL,NULL,'2025-12-31T12:08:57.964000Z','2026-08-18T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','user','linus','Linus Hald','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8',NULL,NULL,NULL,NULL,'{}',NULL,NULL,'2026-01-07T05:42:51.828000Z','2026-06-18T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019bbcd7-abd5-7bc1-b608-9d5f88802a3d','organization','acme','Acme Instruments','019a09f9-85b9-778f-9667-04013db2b9a2','Balances, sensors and the software around them. Demo data: nothing here is real.',NULL,NULL,'acme.example','{"website_url":"https://acme.example"}',NULL,NULL,'2026-01-14T14:10:09.493000Z','2026-07-06T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('019be355-2eab-7b1b-ae02-5a1fc46cf7a8','organization','northwind','Northwind Goods','019a09f9-85b9-778f-9667-04013db2b9a2','A shop. Demo data of a second organization, whose private things acme never sees.',NULL,NULL,'northwind.example','{"website_url":"https://northwind.example"}',NULL,NULL,'2026-01-22T01:32:49.195000Z','2026-07-24T01:54:19.593000Z');
INSERT INTO "accounts" VALUES('01a21ab6-152a-7445-9241-58b5a028caa3','organization','zephyr','zephyr',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,'2026-11-27T01:54:30.314016Z','2026-11-27T01:54:30.314016Z');
INSERT INTO "accounts" VALUES('01a21ab6-3cfd-719d-814f-5bff1b33b70c','user','bo-zephyr','bo-zephyr',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,'2026-11-27T01:54:40.509486Z','2026-11-27T01:54:40.509486Z');
CREATE TABLE agent_states (
	session_id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (session_id, agent_id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE TABLE agent_versions (
	id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	version_number TEXT NOT NULL, 
	description TEXT, 
	summary TEXT, 
	system_prompt TEXT, 
	prompt_owner_id TEXT, 
	mode TEXT DEFAULT 'one-shot' NOT NULL, 
	tools_json TEXT DEFAULT '[]' NOT NULL, 
	platform_tools_json TEXT DEFAULT '[]' NOT NULL, 
	model TEXT, 
	temperature DOUBLE, 
	max_tokens INTEGER, 
	top_p DOUBLE, 
	validation TEXT DEFAULT 'PASSED' NOT NULL, 
	published_at TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "agent_versions" VALUES('019ee187-475e-74df-b1f0-258d927a20b3','019d83ba-955f-766f-925e-566576ee0d7a','019a09f9-85b9-778f-9667-04013db2b9a2','COMMITTED','1.0.0','Looks up orders, explains returns, helps with devices.','first version','You are the help desk of Acme Instruments. Answer questions about orders and returns.',NULL,'multi-turn','[{"integration":"orders","tools":["find_order","track_parcel","change_address"]},{"integration":"mail","tools":["find_mail","send_mail"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-06-19T20:26:39.774000Z','2026-06-19T20:16:39.774000Z','2026-06-19T20:26:39.774000Z');
INSERT INTO "agent_versions" VALUES('01a09c15-2039-766c-9fcd-41aa7ee592f3','019d83ba-955f-766f-925e-566576ee0d7a','019a09f9-85b9-778f-9667-04013db2b9a2','COMMITTED','1.1.0','Looks up orders, explains returns, helps with devices.','always names the order and the day','You are the help desk of Acme Instruments. Answer questions about orders, returns and devices. Always name the order number and the day of delivery. Never promise a refund before the policy was read.',NULL,'multi-turn','[{"integration":"orders","tools":["find_order","track_parcel","change_address"]},{"integration":"mail","tools":["find_mail","send_mail"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-09-13T18:53:45.337000Z','2026-09-13T18:43:45.337000Z','2026-09-13T18:53:45.337000Z');
INSERT INTO "agent_versions" VALUES('01a1b887-8d95-7a92-a2fd-18ceca676a73','019d83ba-955f-766f-925e-566576ee0d7a','019a09f9-85b9-778f-9667-04013db2b9a2','COMMITTED','1.2.0','Looks up orders, explains returns, helps with devices.','shorter answers, next step at the end','You are the help desk of Acme Instruments.
Answer in at most four sentences. Always name the order number and the day of delivery.
Never promise a refund before the return policy was read. Use a numbered list for instructions.
End with the next step, or ask one question if something is missing.',NULL,'multi-turn','[{"integration":"orders","tools":["find_order","track_parcel","change_address"]},{"integration":"mail","tools":["find_mail","send_mail"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-11-08T00:30:53.781000Z','2026-11-08T00:20:53.781000Z','2026-11-08T00:30:53.781000Z');
INSERT INTO "agent_versions" VALUES('01a21005-baf2-7562-9732-43787182299a','019d83ba-955f-766f-925e-566576ee0d7a','019a09f9-85b9-778f-9667-04013db2b9a2','EPHEMERAL','1.3.0','Looks up orders, explains returns, helps with devices.','trying a friendlier tone','You are the help desk of Acme Instruments, and you like people.
Answer in at most four short, friendly sentences. Name the order number and the day of delivery.
Never promise a refund before the return policy was read. Say sorry once, not three times.',NULL,'multi-turn','[{"integration":"orders","tools":["find_order","track_parcel","change_address"]},{"integration":"mail","tools":["find_mail","send_mail"]}]','[]',NULL,NULL,NULL,NULL,'PASSED',NULL,'2026-11-25T00:05:40.722000Z','2026-11-25T00:05:40.722000Z');
INSERT INTO "agent_versions" VALUES('019f4950-dddf-714c-8b6e-59dd394c93a4','019dac3b-e97f-7a18-a5a1-10d773224c53','019a5694-8832-7cab-8d16-49fca7b250b8','COMMITTED','1.0.0','Answers questions from the warehouse.','first version','You are a data analyst. Answer from the warehouse by SQL. Show the query when asked. Say what a figure includes and excludes.',NULL,'multi-turn','[{"integration":"snowflake","tools":["describe_table","run_sql"]},{"integration":"jira","tools":["search"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-07-10T00:07:44.287000Z','2026-07-09T23:57:44.287000Z','2026-07-10T00:07:44.287000Z');
INSERT INTO "agent_versions" VALUES('01a1ec34-67ad-77bc-9428-72b66b4044e0','019dac3b-e97f-7a18-a5a1-10d773224c53','019a5694-8832-7cab-8d16-49fca7b250b8','COMMITTED','2.0.0','Answers questions from the warehouse.','checks every total a second way; slower, and safer','You are a careful data analyst.
Before you answer, read the definitions and run every total a second way.
Use a table for more than two figures. Always say what a figure includes and excludes, and how sure you are.
Never guess a number. If the warehouse does not hold it, say so and name who would know.',NULL,'multi-turn','[{"integration":"snowflake","tools":["describe_table","run_sql"]},{"integration":"jira","tools":["search"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-11-18T01:20:19.821000Z','2026-11-18T01:10:19.821000Z','2026-11-18T01:20:19.821000Z');
INSERT INTO "agent_versions" VALUES('01a214d5-72ee-714e-877e-d6f8f7cf088d','019dac3b-e97f-7a18-a5a1-10d773224c53','019a5694-8832-7cab-8d16-49fca7b250b8','EPHEMERAL','2.1.0','Answers questions from the warehouse.','fewer checks for small questions','You are a careful data analyst.
Check totals a second way only if more than one table is read.
Use a table for more than two figures. Never guess a number.',NULL,'multi-turn','[{"integration":"snowflake","tools":["describe_table","run_sql"]},{"integration":"jira","tools":["search"]}]','[]',NULL,NULL,NULL,NULL,'PENDING',NULL,'2026-11-25T22:31:02.638000Z','2026-11-25T22:31:02.638000Z');
INSERT INTO "agent_versions" VALUES('019f7bcd-fa54-7151-b0a2-a45ec22ab8c6','019e2d55-9589-79a2-a2c3-637259625cb1','019ac048-ba3a-78d4-afe2-9a601f44911f','COMMITTED','1.0.0','Writes release notes and the morning digest.','first version','You write release notes. List what is new, then what is fixed. Leave out what users cannot notice.',NULL,'one-shot','[{"integration":"github","tools":["list_changes","read_pull_requests"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-07-19T19:25:24.372000Z','2026-07-19T19:15:24.372000Z','2026-07-19T19:25:24.372000Z');
INSERT INTO "agent_versions" VALUES('01a170b8-303f-7871-b702-ad8e80a9dbe5','019e2d55-9589-79a2-a2c3-637259625cb1','019ac048-ba3a-78d4-afe2-9a601f44911f','COMMITTED','1.1.0','Writes release notes and the morning digest.','says what breaks, first','You write release notes for people who are in a hurry.
Start with what breaks, if anything does. Then what is new, then what is fixed. Use one line for each.
Avoid names of classes and files. Never mention a customer.',NULL,'one-shot','[{"integration":"github","tools":["list_changes","read_pull_requests","diff_schema"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-25T01:51:21.599000Z','2026-10-25T01:41:21.599000Z','2026-10-25T01:51:21.599000Z');
INSERT INTO "agent_versions" VALUES('019fe41b-ea22-7188-ba06-f117a06cc9ba','019e477a-b3dd-7878-96af-d5b58648f574','019ae69e-7f56-7904-b4aa-ac2cd07e0615','COMMITTED','1.0.0','Reads alerts and metrics, proposes one action at a time.','first version','You help the engineer on call. Read the metrics before you say anything. Propose one action, the safest first. Never act without being told to.',NULL,'multi-turn','[{"integration":"metrics","tools":["read_metrics"]},{"integration":"pagerduty","tools":["list_alerts"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-08-09T01:31:02.498000Z','2026-08-09T01:21:02.498000Z','2026-08-09T01:31:02.498000Z');
INSERT INTO "agent_versions" VALUES('01a1e6e7-1e8b-7943-876f-2949683b9924','019e477a-b3dd-7878-96af-d5b58648f574','019ae69e-7f56-7904-b4aa-ac2cd07e0615','COMMITTED','1.0.1','Reads alerts and metrics, proposes one action at a time.','after the incident: looks at the connection pool','You help the engineer on call. Read the metrics and the connection pools before you say anything. Propose one action, the safest first, and cite the runbook. Never act without being told to.',NULL,'multi-turn','[{"integration":"metrics","tools":["read_metrics"]},{"integration":"pagerduty","tools":["list_alerts"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-11-17T00:37:48.747000Z','2026-11-17T00:27:48.747000Z','2026-11-17T00:37:48.747000Z');
INSERT INTO "agent_versions" VALUES('01a0b1f9-5b98-7d04-8213-636054857747','019ee131-f855-7629-86ec-e001350de328','019b06d9-c61b-770a-a209-0cb4df93c25b','EPHEMERAL','0.9.0','Quotes clauses of contracts. Private to acme.','trial on five contracts','You read contracts. Quote the clause.',NULL,'one-shot','[]','[]',NULL,NULL,NULL,NULL,'PASSED',NULL,'2026-09-18T00:45:04.280000Z','2026-09-18T00:45:04.280000Z');
INSERT INTO "agent_versions" VALUES('01a0d9b6-9df8-7f75-910d-280db1bee565','019ee131-f855-7629-86ec-e001350de328','019b06d9-c61b-770a-a209-0cb4df93c25b','COMMITTED','1.0.0','Quotes clauses of contracts. Private to acme.','quotes clauses, gives no advice','You read contracts for the sales team. Always quote the clause with its number. Only report what is written; never give legal advice. If two clauses disagree, show both.',NULL,'multi-turn','[{"integration":"google_drive","tools":["search_files","read_clauses"]}]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-09-25T18:06:59.000000Z','2026-09-25T17:56:59.000000Z','2026-09-25T18:06:59.000000Z');
INSERT INTO "agent_versions" VALUES('019d7902-7b72-7d4c-a5f9-d15b0f609472','019d5a56-a611-7838-9f9b-b05b999323dd','019a09f9-85b9-778f-9667-04013db2b9a2','COMMITTED','1.0.0','Welcomed new colleagues; archived with its workspace.','first version','You welcome new colleagues. Be brief and friendly. Answer from the handbook only, and name the page.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-04-10T20:18:19.058000Z','2026-04-10T20:08:19.058000Z','2026-04-10T20:18:19.058000Z');
INSERT INTO "agent_versions" VALUES('01a2056c-c819-7420-beb3-6fd5a7a748e3','01a2001a-d40d-7f45-9f47-f8084284c791','019a7714-7d52-7db1-8db7-560a2190636f','EPHEMERAL','0.1.0','Forecasts demand. Still being set up.','not validated yet','You forecast demand by week. Always give a range.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'FAILED',NULL,'2026-11-22T22:42:24.921000Z','2026-11-22T22:42:24.921000Z');
INSERT INTO "agent_versions" VALUES('01a0ff07-64f4-74ac-8cc0-20bd7d95b085','01a0f518-62b0-7ba3-aa17-7f9a266ca597','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','COMMITTED','1.0.0','Helps the shop''s customers. Private to northwind.','first version','You help the customers of Northwind Goods. Be polite. Ask for the order number if it is missing.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-03T00:01:09.812000Z','2026-10-02T23:51:09.812000Z','2026-10-03T00:01:09.812000Z');
INSERT INTO "agent_versions" VALUES('01a131d6-b20c-750e-b33d-0db341d52bcb','01a12843-1e3f-7559-bbe4-8014a6470b10','019a09f9-85b9-778f-9667-04013db2b9a2','COMMITTED','1.0.0','Keeps Ada''s notes.','first version','You help me keep notes. Use my own words. Ask one question at the end.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-12T20:48:36.300000Z','2026-10-12T20:38:36.300000Z','2026-10-12T20:48:36.300000Z');
INSERT INTO "agent_versions" VALUES('019d60b6-65c9-71e6-b4cd-d0271e1ccc71','019d6011-e4b5-78ca-8804-79d5b6dc172b','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Answers questions about agentbook and the platform from the documentation, and names its sources.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-04-06T02:54:19.593000Z','2026-04-06T02:54:19.593000Z','2026-04-06T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('019d65dc-c1c9-7fc9-a48b-37aa72dc9b95','019d6573-3ac7-763c-b449-b08a803507a3','019a5694-8832-7cab-8d16-49fca7b250b8','COMMITTED','1.0.0','Counts sessions, messages, failures and waiting times of this account by real queries.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-04-07T02:54:19.593000Z','2026-04-07T02:54:19.593000Z','2026-04-07T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a1196e-e1c9-7dc3-b8c2-22da76598f0f','01a117af-36be-70a0-9021-e587b61eaab1','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','COMMITTED','1.0.0','Does arithmetic exactly, one operation at a time.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-08T02:54:19.593000Z','2026-10-08T02:54:19.593000Z','2026-10-08T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a0ffaf-15c9-75d1-bf70-517747e50e4d','01a0fe8a-0417-7286-a70d-a054441b7e38','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Says back what it is told.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a0ffaf-15c9-7961-866d-a67061023f15','01a0fe41-4b80-7e54-ab8b-75172d979d2b','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Runs many subtasks before it answers: say how many.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a0ffaf-15c9-799f-ac8b-a8967448679a','01a0ff44-d4d0-7fa3-af41-8660714dbae3','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Takes as many seconds as it is told.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a0ffaf-15c9-7c32-b439-c22fcfd31698','01a0fec1-0f85-705b-a14b-a7f5e2bb4a8b','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Fails about three turns in ten.',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z','2026-10-03T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7fdc-a105-e0fe3ac7cc57','01a10478-bbda-7fc2-8154-7278d278a46b','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: 413 Request Entity Too Large',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-75bd-8849-c08d6b577b03','01a10435-7ed4-70bd-ac52-f7ac29e01a61','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: exceeded LLM request size limit for this task',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7476-9526-3878468ee25f','01a10313-fc9d-7b7f-8e98-ebbfd8244c60','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: exceeded LLM call limit for this execution tree',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7a61-b7ed-ce124d76e292','01a1038f-a343-7c30-ae90-73e958d3a968','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: exceeded LLM token limit for this execution tree',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7352-92e6-9f22707963f2','01a10310-27cc-7fe1-83e2-ccb2d74142a0','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: exceeded agent task limit for this execution tree',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-741d-9b55-319b6bdacc94','01a10426-c6c6-7440-af06-2895a7cdd0d6','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: exceeded tool fan-out limit for this task',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7605-91a8-a08e13d12264','01a10443-dd82-73cb-b888-5754f5a6650e','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: WORKSPACE budget exceeded for ''the workspace''',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-71bc-97ad-c77ff002a1cf','01a1043f-64dc-73ee-8eff-50ca53b5e03f','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: Agent ran too many synchronous steps without yielding',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a104d5-71c9-7632-ac0f-e0c12f09b810','01a1046d-bebc-7288-8140-d1abc1c0b332','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Ends every turn with: TURN_TIMEOUT: the turn ran past the wall-clock ceiling',NULL,NULL,NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z','2026-10-04T02:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a14cb7-8b49-720e-811a-5c2ac3b2191f','01a11937-f349-7649-84d9-25d6f81bcca2','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.0.0','Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts.','first version','You are the scribe of Acme Instruments. Answer questions about the platform.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED',NULL,'2026-10-18T01:54:19.593000Z','2026-10-18T01:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a1ae90-5f49-7add-8f8c-3c2864b961d9','01a11937-f349-7649-84d9-25d6f81bcca2','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.1.0','Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts.','names its sources','You are the scribe of Acme Instruments. Answer in at most five sentences. Name your sources.',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED',NULL,'2026-11-06T01:54:19.593000Z','2026-11-06T01:54:19.593000Z');
INSERT INTO "agent_versions" VALUES('01a1fbcf-c349-7334-ae6e-c4fbc85d0cf3','01a11937-f349-7649-84d9-25d6f81bcca2','019a9a55-7935-7f3c-9148-a6f2344ff820','COMMITTED','1.2.0','Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts.','shorter, and honest about gaps','You are the scribe of Acme Instruments.
Answer in at most three sentences. Name your sources.
If you do not know, say "I have nothing about that; ask the guide."',NULL,'multi-turn','[]','[]',NULL,NULL,NULL,NULL,'PASSED',NULL,'2026-11-21T01:54:19.593000Z','2026-11-21T01:54:19.593000Z');
CREATE TABLE agents (
	id TEXT NOT NULL, 
	owner_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	maintainer_id TEXT, 
	name TEXT NOT NULL, 
	description TEXT, 
	avatar_url TEXT, 
	category TEXT, 
	tags_json TEXT DEFAULT '[]' NOT NULL, 
	template TEXT, 
	engine TEXT NOT NULL, 
	setup_state TEXT DEFAULT 'READY' NOT NULL, 
	forked_from_version TEXT, 
	is_public BOOLEAN DEFAULT false NOT NULL, 
	is_archived BOOLEAN DEFAULT false NOT NULL, 
	is_pinned BOOLEAN DEFAULT false NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (owner_id, name), 
	FOREIGN KEY(owner_id) REFERENCES accounts (id)
);
INSERT INTO "agents" VALUES('019d6011-e4b5-78ca-8804-79d5b6dc172b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','guide','Answers questions about agentbook and the platform from the documentation, and names its sources.',NULL,'documentation','["docs","help"]','PLATFORM_NATIVE','guide','READY',NULL,1,0,1,'2026-04-05T23:54:38.645000Z','2026-04-08T06:01:17.669000Z');
INSERT INTO "agents" VALUES('019d6573-3ac7-763c-b449-b08a803507a3','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a5694-8832-7cab-8d16-49fca7b250b8','019a5694-8832-7cab-8d16-49fca7b250b8','analyst','Counts sessions, messages, failures and waiting times of this account by real queries.',NULL,'analytics','["sql","activity"]','PLATFORM_NATIVE','analyst','READY',NULL,1,0,1,'2026-04-07T00:59:03.751000Z','2026-04-07T10:40:26.716000Z');
INSERT INTO "agents" VALUES('019d83ba-955f-766f-925e-566576ee0d7a','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','helpdesk','Looks up orders, explains returns, helps with devices.',NULL,'support','["orders","returns"]','LLM','llm','READY',NULL,1,0,0,'2026-04-12T22:05:36.479000Z','2026-04-15T05:43:34.112000Z');
INSERT INTO "agents" VALUES('019dac3b-e97f-7a18-a5a1-10d773224c53','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a5694-8832-7cab-8d16-49fca7b250b8','019a5694-8832-7cab-8d16-49fca7b250b8','data-desk','Answers questions from the warehouse.',NULL,'analytics','["sql","warehouse"]','LLM','llm','READY',NULL,0,0,0,'2026-04-20T18:51:40.799000Z','2026-04-20T21:55:32.934000Z');
INSERT INTO "agents" VALUES('019e2d55-9589-79a2-a2c3-637259625cb1','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ac048-ba3a-78d4-afe2-9a601f44911f','019ac048-ba3a-78d4-afe2-9a601f44911f','release-notes','Writes release notes and the morning digest.',NULL,'engineering','["releases"]','LLM','llm','READY',NULL,0,0,0,'2026-05-15T20:30:44.105000Z','2026-05-19T01:48:35.557000Z');
INSERT INTO "agents" VALUES('019e477a-b3dd-7878-96af-d5b58648f574','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ae69e-7f56-7904-b4aa-ac2cd07e0615','019ae69e-7f56-7904-b4aa-ac2cd07e0615','incident-helper','Reads alerts and metrics, proposes one action at a time.',NULL,'engineering','["alerts","runbook"]','LLM','llm','READY',NULL,0,0,0,'2026-05-20T22:21:24.317000Z','2026-05-23T16:52:07.473000Z');
INSERT INTO "agents" VALUES('019ee131-f855-7629-86ec-e001350de328','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b06d9-c61b-770a-a209-0cb4df93c25b','019b06d9-c61b-770a-a209-0cb4df93c25b','contract-reader','Quotes clauses of contracts. Private to acme.',NULL,'sales','["contracts"]','LLM','llm','READY',NULL,0,0,0,'2026-06-19T18:43:28.981000Z','2026-06-21T09:11:52.061000Z');
INSERT INTO "agents" VALUES('019d5a56-a611-7838-9f9b-b05b999323dd','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','onboarding-buddy','Welcomed new colleagues; archived with its workspace.',NULL,'people','["handbook"]','LLM','llm','READY',NULL,0,1,0,'2026-04-04T21:12:01.297000Z','2026-04-07T12:47:48.157000Z');
INSERT INTO "agents" VALUES('01a2001a-d40d-7f45-9f47-f8084284c791','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a7714-7d52-7db1-8db7-560a2190636f','019a7714-7d52-7db1-8db7-560a2190636f','forecaster','Forecasts demand. Still being set up.',NULL,'analytics','["demand"]','LANGGRAPH','langgraph','PENDING',NULL,0,0,0,'2026-11-21T21:54:47.949000Z','2026-11-23T04:28:07.840000Z');
INSERT INTO "agents" VALUES('01a0f518-62b0-7ba3-aa17-7f9a266ca597','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','shop-assistant','Helps the shop''s customers. Private to northwind.',NULL,'support','["shop"]','LLM','llm','READY',NULL,0,0,0,'2026-10-01T01:33:31.184000Z','2026-10-03T17:48:02.464000Z');
INSERT INTO "agents" VALUES('01a117af-36be-70a0-9021-e587b61eaab1','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','calculator','Does arithmetic exactly, one operation at a time.',NULL,'utilities','["arithmetic"]','PLATFORM_NATIVE','calculator','READY',NULL,1,0,0,'2026-10-07T18:45:21.214000Z','2026-10-08T21:57:27.807000Z');
INSERT INTO "agents" VALUES('01a12843-1e3f-7559-bbe4-8014a6470b10','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','diary','Keeps Ada''s notes.',NULL,'personal','["notes"]','LLM','llm','READY',NULL,0,0,0,'2026-10-11T00:00:49.727000Z','2026-10-12T06:50:17.110000Z');
INSERT INTO "agents" VALUES('01a0fe8a-0417-7286-a70d-a054441b7e38','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','echo','Says back what it is told.',NULL,'teaching','["teaching"]','PLATFORM_NATIVE','echo','READY',NULL,0,0,0,'2026-10-02T21:34:13.015000Z','2026-10-03T05:28:00.998000Z');
INSERT INTO "agents" VALUES('01a0fe41-4b80-7e54-ab8b-75172d979d2b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','verbose','Runs many subtasks before it answers: say how many.',NULL,'teaching','["teaching"]','PLATFORM_NATIVE','verbose','READY',NULL,0,0,0,'2026-10-02T20:14:47.168000Z','2026-10-05T02:48:08.314000Z');
INSERT INTO "agents" VALUES('01a0ff44-d4d0-7fa3-af41-8660714dbae3','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','slow','Takes as many seconds as it is told.',NULL,'teaching','["teaching"]','PLATFORM_NATIVE','slow','READY',NULL,0,0,0,'2026-10-03T00:58:16.144000Z','2026-10-06T03:22:03.254000Z');
INSERT INTO "agents" VALUES('01a0fec1-0f85-705b-a14b-a7f5e2bb4a8b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','flaky','Fails about three turns in ten.',NULL,'teaching','["teaching"]','PLATFORM_NATIVE','flaky','READY',NULL,0,0,0,'2026-10-02T22:34:20.421000Z','2026-10-03T18:34:32.463000Z');
INSERT INTO "agents" VALUES('01a10478-bbda-7fc2-8154-7278d278a46b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-state-size','Ends every turn with: 413 Request Entity Too Large',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-state-size','READY',NULL,0,0,0,'2026-10-04T01:13:03.706000Z','2026-10-04T11:28:25.856000Z');
INSERT INTO "agents" VALUES('01a10435-7ed4-70bd-ac52-f7ac29e01a61','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-llm-request-size','Ends every turn with: exceeded LLM request size limit for this task',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-llm-request-size','READY',NULL,0,0,0,'2026-10-03T23:59:37.172000Z','2026-10-04T17:40:47.747000Z');
INSERT INTO "agents" VALUES('01a10313-fc9d-7b7f-8e98-ebbfd8244c60','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-llm-calls','Ends every turn with: exceeded LLM call limit for this execution tree',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-llm-calls','READY',NULL,0,0,0,'2026-10-03T18:43:23.933000Z','2026-10-07T02:39:38.941000Z');
INSERT INTO "agents" VALUES('01a1038f-a343-7c30-ae90-73e958d3a968','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-llm-tokens','Ends every turn with: exceeded LLM token limit for this execution tree',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-llm-tokens','READY',NULL,0,0,0,'2026-10-03T20:58:27.523000Z','2026-10-07T19:27:21.354000Z');
INSERT INTO "agents" VALUES('01a10310-27cc-7fe1-83e2-ccb2d74142a0','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-agent-tasks','Ends every turn with: exceeded agent task limit for this execution tree',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-agent-tasks','READY',NULL,0,0,0,'2026-10-03T18:39:12.844000Z','2026-10-06T12:19:47.288000Z');
INSERT INTO "agents" VALUES('01a10426-c6c6-7440-af06-2895a7cdd0d6','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-tool-fan-out','Ends every turn with: exceeded tool fan-out limit for this task',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-tool-fan-out','READY',NULL,0,0,0,'2026-10-03T23:43:32.550000Z','2026-10-04T20:21:05.043000Z');
INSERT INTO "agents" VALUES('01a10443-dd82-73cb-b888-5754f5a6650e','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-budget','Ends every turn with: WORKSPACE budget exceeded for ''the workspace''',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-budget','READY',NULL,0,0,0,'2026-10-04T00:15:18.914000Z','2026-10-04T07:41:37.253000Z');
INSERT INTO "agents" VALUES('01a1043f-64dc-73ee-8eff-50ca53b5e03f','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-synchronous-steps','Ends every turn with: Agent ran too many synchronous steps without yielding',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-synchronous-steps','READY',NULL,0,0,0,'2026-10-04T00:10:25.884000Z','2026-10-07T12:03:44.834000Z');
INSERT INTO "agents" VALUES('01a1046d-bebc-7288-8140-d1abc1c0b332','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','limit-turn-timeout','Ends every turn with: TURN_TIMEOUT: the turn ran past the wall-clock ceiling',NULL,'teaching','["teaching","limits"]','PLATFORM_NATIVE','limit-turn-timeout','READY',NULL,0,0,0,'2026-10-04T01:01:03.548000Z','2026-10-07T03:51:21.828000Z');
INSERT INTO "agents" VALUES('01a11937-f349-7649-84d9-25d6f81bcca2','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','019a9a55-7935-7f3c-9148-a6f2344ff820','scribe','Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts.',NULL,'teaching','["teaching","prompts"]','LLM','scribe','READY',NULL,0,0,0,'2026-10-08T01:54:19.593000Z','2026-11-21T01:54:19.593000Z');
INSERT INTO "agents" VALUES('01a21ab6-a5cd-777a-9889-b7b246941ec5','01a21ab6-152a-7445-9241-58b5a028caa3','01a21ab6-5ed8-736e-9114-f744c1d2e10f',NULL,'helper',NULL,NULL,NULL,'[]',NULL,'llm','READY',NULL,0,0,0,'2026-11-27T01:55:07.341641Z','2026-11-27T01:55:07.341641Z');
CREATE TABLE api_keys (
	id TEXT NOT NULL, 
	kind TEXT DEFAULT 'account' NOT NULL, 
	account_id TEXT NOT NULL, 
	workspace_id TEXT, 
	agent_id TEXT, 
	authorization_id TEXT, 
	name TEXT NOT NULL, 
	secret_sha256 TEXT NOT NULL, 
	scopes_json TEXT DEFAULT '[]' NOT NULL, 
	revoked_at TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(account_id) REFERENCES accounts (id)
);
INSERT INTO "api_keys" VALUES('019fb02c-d527-7c48-b421-5263633bd446','account','019bbcd7-abd5-7bc1-b608-9d5f88802a3d',NULL,NULL,NULL,'support-desk','2cb7fd774690abd26e18a95efb482ab15aefc900daf5bbcff6868f76edb449df','["agents:read","sessions:write","workspaces:read"]',NULL,'2026-07-29T23:19:16.007000Z','2026-07-29T23:19:16.007000Z');
INSERT INTO "api_keys" VALUES('01a05490-32b7-7c71-8853-1084e4615afd','account','019bbcd7-abd5-7bc1-b608-9d5f88802a3d',NULL,NULL,NULL,'nightly-report','ce50e388b873c5edfbce992e8b39284a92c93e25ce2bb25bbd4c8735ab5d7d42','["agents:read","workspaces:read","integrations:read"]',NULL,'2026-08-30T21:25:31.447000Z','2026-08-30T21:25:31.447000Z');
INSERT INTO "api_keys" VALUES('01a14c16-efc9-7740-9bef-43009ed5f268','account','019bbcd7-abd5-7bc1-b608-9d5f88802a3d',NULL,NULL,NULL,'notebooks','4c1cd3d796d48900c992d2a68563d1fff125b1a63d039c3cb3a7cffb5e241464','["agents:write","sessions:write","workspaces:write","skills:read","integrations:read"]',NULL,'2026-10-17T22:58:54.025000Z','2026-10-17T22:58:54.025000Z');
INSERT INTO "api_keys" VALUES('019c0fe7-8e24-79e8-b714-c39704178486','account','019bbcd7-abd5-7bc1-b608-9d5f88802a3d',NULL,NULL,NULL,'old-laptop','1fd640f6d6cd95022f374601c0612d3d5a5803ed1d26f404fc44bac178a8eaa2','["agents:write","sessions:write","workspaces:write"]','2026-04-30T17:15:59.396000Z','2026-01-30T17:15:59.396000Z','2026-01-30T17:15:59.396000Z');
INSERT INTO "api_keys" VALUES('01a1dce9-618f-7a40-ae16-2eeca65c409a','account','019bbcd7-abd5-7bc1-b608-9d5f88802a3d',NULL,NULL,NULL,'no-scopes','834c5441a43606698185d3057000484a3df5ace0679d308adc003f9f74efe535','[]',NULL,'2026-11-15T01:54:04.815000Z','2026-11-15T01:54:04.815000Z');
INSERT INTO "api_keys" VALUES('01a049c6-dafd-7ce0-9b70-d32c5c39a05b','trigger','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019e1435-1442-739a-b571-d73943fd6b75','019e2d55-9589-79a2-a2c3-637259625cb1',NULL,'build-server','ab4f8700711baac14201b049c72945fce3a8c78ab9dd61f94d0eeb81753d72d5','[]',NULL,'2026-08-28T19:09:24.093000Z','2026-08-28T19:09:24.093000Z');
INSERT INTO "api_keys" VALUES('01a030e3-4481-7901-884b-d34fb1724429','trigger','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019e1dc3-7512-7536-b0d2-d1d4b4562d53','019e477a-b3dd-7878-96af-d5b58648f574',NULL,'alert-relay','7b111284caae46277a0c54758b1a315463b2f247db125cde2e3769a84434515a','[]',NULL,'2026-08-23T23:09:55.713000Z','2026-08-23T23:09:55.713000Z');
INSERT INTO "api_keys" VALUES('01a03139-afdc-745b-b547-6e554593e9d9','trigger','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019e1435-1442-739a-b571-d73943fd6b75','019e2d55-9589-79a2-a2c3-637259625cb1',NULL,'weekday-digest','6024a43311a274e168c50b364f0f7ab23210c1aaf9723c4ccbf0b4a7fa6709f5','[]',NULL,'2026-08-24T00:44:19.292000Z','2026-08-24T00:44:19.292000Z');
INSERT INTO "api_keys" VALUES('01a0e58c-4bb2-7be3-930d-ddedca3add98','account','019be355-2eab-7b1b-ae02-5a1fc46cf7a8',NULL,NULL,NULL,'shop-front','cd7ae7068d7aa32b512bd5137c044692bdcbfce3b2e5a091e0876c87d05e2860','["agents:read","sessions:write","workspaces:read"]',NULL,'2026-09-28T01:06:12.018000Z','2026-09-28T01:06:12.018000Z');
INSERT INTO "api_keys" VALUES('01a21ab6-5ed8-736e-9114-f744c1d2e10f','account','01a21ab6-152a-7445-9241-58b5a028caa3',NULL,NULL,NULL,'notebook','0aba1551d1a2bd411c758f8dcf99722404fa2549c7c55c59370883e26bb9e3e9','["agents:write","integrations:write","sessions:write","skills:write","workspaces:write"]',NULL,'2026-11-27T01:54:49.176112Z','2026-11-27T01:54:49.176112Z');
INSERT INTO "api_keys" VALUES('01a21ab6-7da2-7716-b3ba-5f863b84462d','account','01a21ab6-152a-7445-9241-58b5a028caa3',NULL,NULL,NULL,'lost','b9f3adf0a97129257ae6ceb9d7685627fc12900ae9f8d192dc4bea3e98d750c9','["agents:write","integrations:write","sessions:write","skills:write","workspaces:write"]','2026-11-27T01:55:05.960846Z','2026-11-27T01:54:57.058102Z','2026-11-27T01:55:05.960846Z');
CREATE TABLE contexts (
	id TEXT NOT NULL, 
	workspace_id TEXT NOT NULL, 
	task_id TEXT, 
	published_by_id TEXT, 
	type TEXT, 
	status TEXT NOT NULL, 
	generated_context TEXT, 
	manual_context TEXT, 
	summary TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);
CREATE TABLE credential_grants (
	credential_id TEXT NOT NULL, 
	workspace_agent_id TEXT NOT NULL, 
	PRIMARY KEY (credential_id, workspace_agent_id), 
	FOREIGN KEY(credential_id) REFERENCES credentials (id), 
	FOREIGN KEY(workspace_agent_id) REFERENCES workspace_agents (id) ON DELETE CASCADE
);
CREATE TABLE credentials (
	id TEXT NOT NULL, 
	owner_id TEXT NOT NULL, 
	creator_id TEXT, 
	account_id TEXT NOT NULL, 
	target_id TEXT, 
	auth_config_id TEXT, 
	integration TEXT NOT NULL, 
	name TEXT NOT NULL, 
	params_json TEXT DEFAULT '{}' NOT NULL, 
	extra_data_json TEXT DEFAULT '{}' NOT NULL, 
	config_params_json TEXT DEFAULT '{}' NOT NULL, 
	policy_resources_json TEXT DEFAULT '[]' NOT NULL, 
	webhook_owner_identifier TEXT, 
	webhook_url TEXT, 
	signature_type TEXT, 
	webhook_enabled BOOLEAN DEFAULT false NOT NULL, 
	has_active_webhook_triggers BOOLEAN DEFAULT false NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(owner_id) REFERENCES accounts (id)
);
CREATE TABLE events (
	session_id TEXT NOT NULL, 
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	task_id TEXT, 
	author_type TEXT, 
	created_at TEXT NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	wire TEXT NOT NULL, 
	PRIMARY KEY (session_id, id)
)
 WITHOUT ROWID

;
INSERT INTO "events" VALUES('01a2197a-e877-7d35-97c2-f1a5e640bbcc','01a2197a-e87f-77af-ab68-7ee12ea0f92a','message','01a2197a-e87f-7d22-9690-f14bbd27c16b','trigger','2026-11-26T20:10:15.039000Z',376,'{"id":"01a2197a-e87f-77af-ab68-7ee12ea0f92a","type":"message","content":{"text":"{\"build\": \"3.7.3\", \"result\": \"passed\", \"minutes\": 12}"},"task_id":"01a2197a-e87f-7d22-9690-f14bbd27c16b","author":{"type":"trigger","id":"01a049c6-dafd-7ce0-9b70-d32c5c39a05b","name":"build-server"},"created_at":"2026-11-26T20:10:15.039000Z","updated_at":"2026-11-26T20:10:15.039000Z"}');
INSERT INTO "events" VALUES('01a2197a-e877-7d35-97c2-f1a5e640bbcc','01a2197a-edc8-7139-85f3-ff1a782e5770','runtime_done','01a2197a-e881-7121-9adf-7c83631ac3b1','agent','2026-11-26T20:10:16.392000Z',436,'{"id":"01a2197a-edc8-7139-85f3-ff1a782e5770","type":"runtime_done","content":{},"task_id":"01a2197a-e881-7121-9adf-7c83631ac3b1","author":{"type":"agent","id":"019e2d55-9589-79a2-a2c3-637259625cb1","name":"release-notes"},"step":{"kind":"tool","name":"read_checks","started_at":"2026-11-26T20:10:15.041000Z","ended_at":"2026-11-26T20:10:16.392000Z"},"created_at":"2026-11-26T20:10:16.392000Z","updated_at":"2026-11-26T20:10:16.392000Z"}');
INSERT INTO "events" VALUES('01a2197a-e877-7d35-97c2-f1a5e640bbcc','01a2197a-f0b6-7e0e-9ea7-52650b6e0e54','runtime_done','01a2197a-edca-7d9f-9b64-81d26a8f6c28','agent','2026-11-26T20:10:17.142000Z',438,'{"id":"01a2197a-f0b6-7e0e-9ea7-52650b6e0e54","type":"runtime_done","content":{},"task_id":"01a2197a-edca-7d9f-9b64-81d26a8f6c28","author":{"type":"agent","id":"019e2d55-9589-79a2-a2c3-637259625cb1","name":"release-notes"},"step":{"kind":"tool","name":"update_issues","started_at":"2026-11-26T20:10:16.394000Z","ended_at":"2026-11-26T20:10:17.142000Z"},"created_at":"2026-11-26T20:10:17.142000Z","updated_at":"2026-11-26T20:10:17.142000Z"}');
INSERT INTO "events" VALUES('01a2197a-e877-7d35-97c2-f1a5e640bbcc','01a2197a-fa71-7b41-be3e-50a6d0f17fdc','runtime_done','01a2197a-e87f-7d22-9690-f14bbd27c16b','agent','2026-11-26T20:10:19.633000Z',407,'{"id":"01a2197a-fa71-7b41-be3e-50a6d0f17fdc","type":"runtime_done","content":{"text":"Build 3.7.3 passed in 12 minutes. I moved 2 issues to *Ready for release* and told Edsger."},"task_id":"01a2197a-e87f-7d22-9690-f14bbd27c16b","author":{"type":"agent","id":"019e2d55-9589-79a2-a2c3-637259625cb1","name":"release-notes"},"created_at":"2026-11-26T20:10:19.633000Z","updated_at":"2026-11-26T20:10:19.633000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-a60e-7000-b651-73f772f3c866','message','01a21ab6-a60e-7425-b0e1-4663c6ae0353','api_key','2026-11-27T01:55:07.406000Z',327,'{"id":"01a21ab6-a60e-7000-b651-73f772f3c866","type":"message","content":{"text":"What is a session?"},"task_id":"01a21ab6-a60e-7425-b0e1-4663c6ae0353","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:07.406000Z","updated_at":"2026-11-27T01:55:07.406000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-b3e3-7000-bc9e-1baf34404114','runtime_done','01a21ab6-a898-76fe-8e0c-87956557f7d6','agent','2026-11-27T01:55:10.947000Z',871,'{"id":"01a21ab6-b3e3-7000-bc9e-1baf34404114","type":"runtime_done","content":{},"task_id":"01a21ab6-a898-76fe-8e0c-87956557f7d6","author":{"type":"agent","id":"019d6011-e4b5-78ca-8804-79d5b6dc172b","name":"guide"},"step":{"kind":"tool","name":"search_documentation","started_at":"2026-11-27T01:55:08.056823Z","ended_at":"2026-11-27T01:55:10.910522Z","arguments":{"query": "What is a session?"},"result":[{"section": "Sessions and events › What a session is", "score": 5.8}, {"section": "Streaming and reconnecting › Stream a session", "score": 3.3}, {"section": "Sessions and events › Start a chat session", "score": 3.26}, {"section": "Chat panel › Replay a session", "score": 3.19}, {"section": "Sessions and events › Delete, rename or archive a session", "score": 3.11}]},"created_at":"2026-11-27T01:55:10.947000Z","updated_at":"2026-11-27T01:55:10.947000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-b3e4-7000-ad0e-45264d752670','runtime_done','01a21ab6-a60e-7425-b0e1-4663c6ae0353','agent','2026-11-27T01:55:10.948000Z',818,'{"id":"01a21ab6-b3e4-7000-ad0e-45264d752670","type":"runtime_done","content":{"text":"A session is a conversation in a workspace, and its history is a sequence of events. A session has an `id`, a `workspace_id`, an `initiator_id`, a `name` that may be null, and `created_at` and `updated_at`. Session types are `chat`, `time`, `webhook`, `api_trigger` and `agent_test`; a key may start only `chat`.\n\n*Source: Sessions and events › What a session is*\n\n*See also: Streaming and reconnecting › Stream a session; Sessions and events › Start a chat session; Chat panel › Replay a session*"},"task_id":"01a21ab6-a60e-7425-b0e1-4663c6ae0353","author":{"type":"agent","id":"019d6011-e4b5-78ca-8804-79d5b6dc172b","name":"guide"},"created_at":"2026-11-27T01:55:10.948000Z","updated_at":"2026-11-27T01:55:10.948000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-b47a-7000-9070-153c33aac128','message','01a21ab6-b47a-73b3-9f5b-11f9fb2c75e4','api_key','2026-11-27T01:55:11.098000Z',328,'{"id":"01a21ab6-b47a-7000-9070-153c33aac128","type":"message","content":{"text":"And a turn? é 🙂"},"task_id":"01a21ab6-b47a-73b3-9f5b-11f9fb2c75e4","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:11.098000Z","updated_at":"2026-11-27T01:55:11.098000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-b4ec-7000-bf03-d92f2f722f2b','runtime_done','01a21ab6-b4cb-73e3-a064-d17c43d67938','agent','2026-11-27T01:55:11.212000Z',849,'{"id":"01a21ab6-b4ec-7000-bf03-d92f2f722f2b","type":"runtime_done","content":{},"task_id":"01a21ab6-b4cb-73e3-a064-d17c43d67938","author":{"type":"agent","id":"019d6011-e4b5-78ca-8804-79d5b6dc172b","name":"guide"},"step":{"kind":"tool","name":"search_documentation","started_at":"2026-11-27T01:55:11.180005Z","ended_at":"2026-11-27T01:55:11.197555Z","arguments":{"query": "What is a session? turn"},"result":[{"section": "Sessions and events › Failed turns", "score": 8.01}, {"section": "Sessions and events › Turns", "score": 7.54}, {"section": "Sessions and events › Asking", "score": 6.33}, {"section": "Getting started › Ask and wait for a reply", "score": 6.06}, {"section": "Prompt lab › Add turns that happened to the test set", "score": 5.91}]},"created_at":"2026-11-27T01:55:11.212000Z","updated_at":"2026-11-27T01:55:11.212000Z"}');
INSERT INTO "events" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-b4ec-7001-93c5-4653673c7797','runtime_done','01a21ab6-b47a-73b3-9f5b-11f9fb2c75e4','agent','2026-11-27T01:55:11.212000Z',1206,'{"id":"01a21ab6-b4ec-7001-93c5-4653673c7797","type":"runtime_done","content":{"text":"A turn that hits a run limit has no reply. The embedded service ends it with a `runtime_error` event whose content has `status`, `error` and `message`; see *Errors*, run limits. `sessions.ask` raises `ExecutionLimit` or `ServerError`, with the turn as `error.turn`. The turn''s `failure` says why it failed.\n\nFrom *Sessions and events › Turns*:\n\nA turn opens at an event whose author is not the agent, and closes at a later `runtime_done` event with `content.text`. That text is the reply. Subtasks and tool runs finish first, each with a `runtime_done` whose `content` is `{}`. So a turn can have several `runtime_done` events, and exactly one of them has text.\n\n*Sources: Sessions and events › Failed turns; Sessions and events › Turns*\n\n*See also: Sessions and events › Asking; Getting started › Ask and wait for a reply; Prompt lab › Add turns that happened to the test set*"},"task_id":"01a21ab6-b47a-73b3-9f5b-11f9fb2c75e4","author":{"type":"agent","id":"019d6011-e4b5-78ca-8804-79d5b6dc172b","name":"guide"},"created_at":"2026-11-27T01:55:11.212000Z","updated_at":"2026-11-27T01:55:11.212000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b569-7000-8383-13845821ddb1','message','01a21ab6-b569-72cc-ae3b-ad9b3df35a6c','api_key','2026-11-27T01:55:11.337000Z',327,'{"id":"01a21ab6-b569-7000-8383-13845821ddb1","type":"message","content":{"text":"What is a session?"},"task_id":"01a21ab6-b569-72cc-ae3b-ad9b3df35a6c","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:11.337000Z","updated_at":"2026-11-27T01:55:11.337000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b5e8-7000-acee-1cb8067d0b54','runtime_done','01a21ab6-b5cb-71cf-9c53-5e039703a414','agent','2026-11-27T01:55:11.464000Z',431,'{"id":"01a21ab6-b5e8-7000-acee-1cb8067d0b54","type":"runtime_done","content":{},"task_id":"01a21ab6-b5cb-71cf-9c53-5e039703a414","author":{"type":"agent","id":"019d83ba-955f-766f-925e-566576ee0d7a","name":"helpdesk"},"step":{"kind":"tool","name":"read_prompt","started_at":"2026-11-27T01:55:11.435783Z","ended_at":"2026-11-27T01:55:11.435865Z"},"created_at":"2026-11-27T01:55:11.464000Z","updated_at":"2026-11-27T01:55:11.464000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b5e8-7001-9c34-b0d79e3a6141','runtime_done','01a21ab6-b569-72cc-ae3b-ad9b3df35a6c','agent','2026-11-27T01:55:11.464000Z',681,'{"id":"01a21ab6-b5e8-7001-9c34-b0d79e3a6141","type":"runtime_done","content":{"text":"*I am a rule-based stand-in: no language model is configured for this agent. Set `OPENAI_BASE_URL`, and `OPENAI_API_KEY` if the endpoint needs a key, and restart the service, to have a model answer.*\n\nYou asked **helpdesk**: “What is a session?”\n\nIts system prompt belongs to another account, so I say nothing about it.\n\nTools it could call: `orders`, `mail`."},"task_id":"01a21ab6-b569-72cc-ae3b-ad9b3df35a6c","author":{"type":"agent","id":"019d83ba-955f-766f-925e-566576ee0d7a","name":"helpdesk"},"created_at":"2026-11-27T01:55:11.464000Z","updated_at":"2026-11-27T01:55:11.464000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b654-7000-8bc0-907f2e9c76e6','message','01a21ab6-b654-750a-9941-df0a24a387d3','api_key','2026-11-27T01:55:11.572000Z',328,'{"id":"01a21ab6-b654-7000-8bc0-907f2e9c76e6","type":"message","content":{"text":"And a turn? é 🙂"},"task_id":"01a21ab6-b654-750a-9941-df0a24a387d3","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:11.572000Z","updated_at":"2026-11-27T01:55:11.572000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b69a-7000-abcb-1ebe8008cb66','runtime_done','01a21ab6-b692-70dc-b427-2379bc5c0b07','agent','2026-11-27T01:55:11.642000Z',431,'{"id":"01a21ab6-b69a-7000-abcb-1ebe8008cb66","type":"runtime_done","content":{},"task_id":"01a21ab6-b692-70dc-b427-2379bc5c0b07","author":{"type":"agent","id":"019d83ba-955f-766f-925e-566576ee0d7a","name":"helpdesk"},"step":{"kind":"tool","name":"read_prompt","started_at":"2026-11-27T01:55:11.634711Z","ended_at":"2026-11-27T01:55:11.634859Z"},"created_at":"2026-11-27T01:55:11.642000Z","updated_at":"2026-11-27T01:55:11.642000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-b69a-7001-825c-8a645cc9f81f','runtime_done','01a21ab6-b654-750a-9941-df0a24a387d3','agent','2026-11-27T01:55:11.642000Z',762,'{"id":"01a21ab6-b69a-7001-825c-8a645cc9f81f","type":"runtime_done","content":{"text":"*I am a rule-based stand-in: no language model is configured for this agent. Set `OPENAI_BASE_URL`, and `OPENAI_API_KEY` if the endpoint needs a key, and restart the service, to have a model answer.*\n\nYou asked **helpdesk**: “And a turn? é 🙂”\n\nIts system prompt belongs to another account, so I say nothing about it.\n\nMode multi-turn: the model would also see 1 earlier message of this session.\n\nTools it could call: `orders`, `mail`."},"task_id":"01a21ab6-b654-750a-9941-df0a24a387d3","author":{"type":"agent","id":"019d83ba-955f-766f-925e-566576ee0d7a","name":"helpdesk"},"created_at":"2026-11-27T01:55:11.642000Z","updated_at":"2026-11-27T01:55:11.642000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b73d-7000-9e21-e888cb9b9b07','message','01a21ab6-b73d-77cd-a28e-7332eeb22ab8','api_key','2026-11-27T01:55:11.805000Z',327,'{"id":"01a21ab6-b73d-7000-9e21-e888cb9b9b07","type":"message","content":{"text":"What is a session?"},"task_id":"01a21ab6-b73d-77cd-a28e-7332eeb22ab8","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:11.805000Z","updated_at":"2026-11-27T01:55:11.805000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b80d-7000-adcf-57e7a2c1a6af','runtime_done','01a21ab6-b77c-7677-9c5c-4f75dbf4ee6f','agent','2026-11-27T01:55:12.013000Z',1610,'{"id":"01a21ab6-b80d-7000-adcf-57e7a2c1a6af","type":"runtime_done","content":{},"task_id":"01a21ab6-b77c-7677-9c5c-4f75dbf4ee6f","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"step":{"kind":"tool","name":"look_up_names","started_at":"2026-11-27T01:55:11.868053Z","ended_at":"2026-11-27T01:55:11.895725Z","arguments":{"sql": "WITH \nvisible AS (\n  SELECT s.id, s.type AS session_type, s.created_at, s.initiator_id, s.agent_id, s.workspace_id,\n         w.name AS workspace, COALESCE(a.name, ''(none)'') AS agent\n  FROM sessions s JOIN workspaces w ON w.id = s.workspace_id LEFT JOIN agents a ON a.id = s.agent_id\n  WHERE w.owner_id = :account_id AND w.should_restrict_members = FALSE\n),\nnewest AS (SELECT (SELECT MAX(e.id) FROM events e WHERE e.session_id = visible.id) AS id FROM visible)\nSELECT ''workspace'' AS kind, name FROM workspaces WHERE owner_id = :account_id AND should_restrict_members = FALSE\nUNION SELECT ''agent'', agent FROM visible WHERE agent <> ''(none)''\nUNION ALL SELECT ''account'', name FROM accounts WHERE id = :account_id\nUNION ALL SELECT ''newest event'', MAX(newest.id) FROM newest\nUNION ALL SELECT ''newest session'', MAX(visible.id) FROM visible\nUNION ALL SELECT ''oldest session'', MIN(visible.id) FROM visible", "parameters": {}},"result":{"rows": 8, "first": [{"kind": "agent", "name": "analyst"}, {"kind": "agent", "name": "guide"}, {"kind": "agent", "name": "helpdesk"}, {"kind": "workspace", "name": "research"}, {"kind": "account", "name": "zephyr"}]}},"created_at":"2026-11-27T01:55:12.013000Z","updated_at":"2026-11-27T01:55:12.013000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b80d-7001-a28a-f6a8bd19bcb8','runtime_done','01a21ab6-b7df-7724-8f93-7244e198c83e','agent','2026-11-27T01:55:12.013000Z',1024,'{"id":"01a21ab6-b80d-7001-a28a-f6a8bd19bcb8","type":"runtime_done","content":{},"task_id":"01a21ab6-b7df-7724-8f93-7244e198c83e","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"step":{"kind":"tool","name":"count_sessions","started_at":"2026-11-27T01:55:11.967663Z","ended_at":"2026-11-27T01:55:12.007095Z","arguments":{"sql": "WITH \nvisible AS (\n  SELECT s.id, s.type AS session_type, s.created_at, s.initiator_id, s.agent_id, s.workspace_id,\n         w.name AS workspace, COALESCE(a.name, ''(none)'') AS agent\n  FROM sessions s JOIN workspaces w ON w.id = s.workspace_id LEFT JOIN agents a ON a.id = s.agent_id\n  WHERE w.owner_id = :account_id AND w.should_restrict_members = FALSE\n),\nfacts AS (SELECT visible.*, visible.created_at AS at FROM visible)\nSELECT '''' AS label, COUNT(facts.at) AS n FROM facts WHERE TRUE", "parameters": {}},"result":{"rows": 1, "first": [{"label": "", "n": 3}]}},"created_at":"2026-11-27T01:55:12.013000Z","updated_at":"2026-11-27T01:55:12.013000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b80d-7002-a95b-7625f3c0270d','runtime_done','01a21ab6-b73d-77cd-a28e-7332eeb22ab8','agent','2026-11-27T01:55:12.013000Z',496,'{"id":"01a21ab6-b80d-7002-a95b-7625f3c0270d","type":"runtime_done","content":{"text":"**3 sessions** over the whole history.\n\n*Counted: sessions that began in the period, in workspaces of zephyr that are open to the whole organization. Period: the whole history (UTC).*"},"task_id":"01a21ab6-b73d-77cd-a28e-7332eeb22ab8","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"created_at":"2026-11-27T01:55:12.013000Z","updated_at":"2026-11-27T01:55:12.013000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b898-7000-be29-04fef7e11ea9','message','01a21ab6-b898-7474-ad65-11a3cb63da6b','api_key','2026-11-27T01:55:12.152000Z',328,'{"id":"01a21ab6-b898-7000-be29-04fef7e11ea9","type":"message","content":{"text":"And a turn? é 🙂"},"task_id":"01a21ab6-b898-7474-ad65-11a3cb63da6b","author":{"type":"api_key","id":"01a21ab6-5ed8-736e-9114-f744c1d2e10f","name":"notebook"},"created_at":"2026-11-27T01:55:12.152000Z","updated_at":"2026-11-27T01:55:12.152000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b8f8-7000-8511-28b107a4f90b','runtime_done','01a21ab6-b8c8-755a-9917-971afeffd199','agent','2026-11-27T01:55:12.248000Z',1610,'{"id":"01a21ab6-b8f8-7000-8511-28b107a4f90b","type":"runtime_done","content":{},"task_id":"01a21ab6-b8c8-755a-9917-971afeffd199","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"step":{"kind":"tool","name":"look_up_names","started_at":"2026-11-27T01:55:12.200334Z","ended_at":"2026-11-27T01:55:12.222458Z","arguments":{"sql": "WITH \nvisible AS (\n  SELECT s.id, s.type AS session_type, s.created_at, s.initiator_id, s.agent_id, s.workspace_id,\n         w.name AS workspace, COALESCE(a.name, ''(none)'') AS agent\n  FROM sessions s JOIN workspaces w ON w.id = s.workspace_id LEFT JOIN agents a ON a.id = s.agent_id\n  WHERE w.owner_id = :account_id AND w.should_restrict_members = FALSE\n),\nnewest AS (SELECT (SELECT MAX(e.id) FROM events e WHERE e.session_id = visible.id) AS id FROM visible)\nSELECT ''workspace'' AS kind, name FROM workspaces WHERE owner_id = :account_id AND should_restrict_members = FALSE\nUNION SELECT ''agent'', agent FROM visible WHERE agent <> ''(none)''\nUNION ALL SELECT ''account'', name FROM accounts WHERE id = :account_id\nUNION ALL SELECT ''newest event'', MAX(newest.id) FROM newest\nUNION ALL SELECT ''newest session'', MAX(visible.id) FROM visible\nUNION ALL SELECT ''oldest session'', MIN(visible.id) FROM visible", "parameters": {}},"result":{"rows": 8, "first": [{"kind": "agent", "name": "analyst"}, {"kind": "agent", "name": "guide"}, {"kind": "agent", "name": "helpdesk"}, {"kind": "workspace", "name": "research"}, {"kind": "account", "name": "zephyr"}]}},"created_at":"2026-11-27T01:55:12.248000Z","updated_at":"2026-11-27T01:55:12.248000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b8f8-7001-a8cf-7321745c7f5c','runtime_done','01a21ab6-b8e0-765f-908e-b4ba79967567','agent','2026-11-27T01:55:12.248000Z',2159,'{"id":"01a21ab6-b8f8-7001-a8cf-7321745c7f5c","type":"runtime_done","content":{},"task_id":"01a21ab6-b8e0-765f-908e-b4ba79967567","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"step":{"kind":"tool","name":"count_turns","started_at":"2026-11-27T01:55:12.224122Z","ended_at":"2026-11-27T01:55:12.239427Z","arguments":{"sql": "WITH \nvisible AS (\n  SELECT s.id, s.type AS session_type, s.created_at, s.initiator_id, s.agent_id, s.workspace_id,\n         w.name AS workspace, COALESCE(a.name, ''(none)'') AS agent\n  FROM sessions s JOIN workspaces w ON w.id = s.workspace_id LEFT JOIN agents a ON a.id = s.agent_id\n  WHERE w.owner_id = :account_id AND w.should_restrict_members = FALSE\n),\nmarks AS (\n  SELECT e.session_id, e.task_id, e.created_at, e.type, CASE WHEN e.author_type <> ''agent'' THEN 0 ELSE 1 END AS closes\n  FROM events e JOIN visible ON visible.id = e.session_id\n  WHERE e.author_type <> ''agent'' OR e.type = ''runtime_error'' OR (e.type = ''runtime_done'' AND e.wire LIKE :reply ESCAPE ''\\'')\n),\nturns AS (\n  SELECT marks.session_id, MIN(CASE WHEN marks.closes = 0 THEN marks.created_at END) AS at,\n         MAX(CASE WHEN marks.closes = 1 THEN marks.created_at END) AS closed_at,\n         MAX(CASE WHEN marks.closes = 1 THEN marks.type END) AS outcome\n  FROM marks GROUP BY marks.session_id, marks.task_id\n  HAVING MIN(marks.closes) = 0\n),\nfacts AS (SELECT visible.*, turns.at, turns.outcome AS kind, ((CAST(substr(turns.closed_at,12,2) AS INTEGER)*3600 + CAST(substr(turns.closed_at,15,2) AS INTEGER)*60 + CAST(substr(turns.closed_at,18,9) AS DOUBLE PRECISION)) - (CAST(substr(turns.at,12,2) AS INTEGER)*3600 + CAST(substr(turns.at,15,2) AS INTEGER)*60 + CAST(substr(turns.at,18,9) AS DOUBLE PRECISION)) + CASE WHEN substr(turns.closed_at,1,10) > substr(turns.at,1,10) THEN 86400 ELSE 0 END) AS seconds FROM turns JOIN visible ON visible.id = turns.session_id WHERE TRUE)\nSELECT '''' AS label, COUNT(facts.at) AS n FROM facts WHERE TRUE", "parameters": {}},"result":{"rows": 1, "first": [{"label": "", "n": 6}]}},"created_at":"2026-11-27T01:55:12.248000Z","updated_at":"2026-11-27T01:55:12.248000Z"}');
INSERT INTO "events" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-b8f8-7002-a53d-852e8e62eaaf','runtime_done','01a21ab6-b898-7474-ad65-11a3cb63da6b','agent','2026-11-27T01:55:12.248000Z',529,'{"id":"01a21ab6-b8f8-7002-a53d-852e8e62eaaf","type":"runtime_done","content":{"text":"**6 turns** over the whole history.\n\n*Counted: messages of the period, each with the reply or failure that closed it, in workspaces of zephyr that are open to the whole organization. Period: the whole history (UTC).*"},"task_id":"01a21ab6-b898-7474-ad65-11a3cb63da6b","author":{"type":"agent","id":"019d6573-3ac7-763c-b449-b08a803507a3","name":"analyst"},"created_at":"2026-11-27T01:55:12.248000Z","updated_at":"2026-11-27T01:55:12.248000Z"}');
CREATE TABLE faults (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	request_json TEXT NOT NULL, 
	remaining INTEGER, 
	times_met INTEGER NOT NULL
);
CREATE TABLE invitations (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	invitee_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	status TEXT NOT NULL, 
	type TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(organization_id) REFERENCES accounts (id), 
	FOREIGN KEY(invitee_id) REFERENCES accounts (id)
);
INSERT INTO "invitations" VALUES('019ddfc9-fe03-7c8f-8fc3-92c230eb4b3c','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b06d9-c61b-770a-a209-0cb4df93c25b','019a09f9-85b9-778f-9667-04013db2b9a2','MEMBER','ACCEPTED','organization','2026-04-30T19:07:30.179000Z','2026-05-02T14:12:41.456000Z');
INSERT INTO "invitations" VALUES('019e46d6-3a4e-751c-9869-1ff817570fc3','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ac048-ba3a-78d4-afe2-9a601f44911f','019a2faa-2317-77ed-9635-31edc861df73','MEMBER','ACCEPTED','organization','2026-05-20T19:21:45.294000Z','2026-05-22T00:06:15.059000Z');
INSERT INTO "invitations" VALUES('01a20a9f-df4e-7931-ac34-fab506c2d2d8','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b2b36-62b9-792b-8040-18004eea8339','019a09f9-85b9-778f-9667-04013db2b9a2','MEMBER','PENDING','organization','2026-11-23T22:56:19.278000Z','2026-11-23T22:56:19.278000Z');
INSERT INTO "invitations" VALUES('01a1c7b3-ac65-77b0-833f-94cd2aa62577','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','019a2faa-2317-77ed-9635-31edc861df73','ADMIN','PENDING','organization','2026-11-10T23:03:23.493000Z','2026-11-10T23:03:23.493000Z');
INSERT INTO "invitations" VALUES('01a13767-89cc-7f05-97cb-8e3357a63cb1','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','019a09f9-85b9-778f-9667-04013db2b9a2','MEMBER','DECLINED','organization','2026-10-13T22:34:54.796000Z','2026-10-15T02:20:32.978000Z');
INSERT INTO "invitations" VALUES('01a096c6-23bb-7492-853c-02fc4c568774','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b2b36-62b9-792b-8040-18004eea8339','019a2faa-2317-77ed-9635-31edc861df73','ADMIN','EXPIRED','organization','2026-09-12T17:59:22.811000Z','2026-09-13T00:35:27.194000Z');
INSERT INTO "invitations" VALUES('019f7c87-083c-7557-9855-b55402ad59ca','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b5247-f083-747d-874e-37a1e7656a15','019a09f9-85b9-778f-9667-04013db2b9a2','MEMBER','EXPIRED','organization','2026-07-19T22:37:32.092000Z','2026-07-20T22:11:42.428000Z');
INSERT INTO "invitations" VALUES('01a1fffe-a4d5-7e3c-9bca-87f061f6d265','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019a09f9-85b9-778f-9667-04013db2b9a2','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','MEMBER','PENDING','organization','2026-11-21T21:24:00.853000Z','2026-11-21T21:24:00.853000Z');
INSERT INTO "invitations" VALUES('01a0dff6-3ca1-74bc-8239-0272ea5920a7','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019a9a55-7935-7f3c-9148-a6f2344ff820','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','MEMBER','ACCEPTED','organization','2026-09-26T23:04:11.681000Z','2026-09-28T15:30:35.401000Z');
INSERT INTO "invitations" VALUES('01a17e90-7dc0-7044-be09-68a9a245686d','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019a5694-8832-7cab-8d16-49fca7b250b8','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','ADMIN','DECLINED','organization','2026-10-27T18:12:41.024000Z','2026-10-29T00:07:53.310000Z');
CREATE TABLE memberships (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	is_public BOOLEAN DEFAULT false NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (organization_id, user_id), 
	FOREIGN KEY(organization_id) REFERENCES accounts (id), 
	FOREIGN KEY(user_id) REFERENCES accounts (id)
);
INSERT INTO "memberships" VALUES('019c4541-b349-7aeb-9869-3eea4b5df7b0','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','ADMIN',1,'2026-02-10T01:54:19.593000Z','2026-02-10T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019c7de7-a749-7549-bc60-1d979a5bf0db','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a2faa-2317-77ed-9635-31edc861df73','ADMIN',1,'2026-02-21T01:54:19.593000Z','2026-02-21T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019cb68d-9b49-7c82-9901-f9901f7825d9','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a5694-8832-7cab-8d16-49fca7b250b8','MEMBER',0,'2026-03-04T01:54:19.593000Z','2026-03-04T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019cef33-8f49-7b1e-b5e4-e7c0178b229b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a7714-7d52-7db1-8db7-560a2190636f','MEMBER',1,'2026-03-15T01:54:19.593000Z','2026-03-15T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019d27d9-8349-7edc-9cdb-df87e67742e5','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a9a55-7935-7f3c-9148-a6f2344ff820','MEMBER',1,'2026-03-26T01:54:19.593000Z','2026-03-26T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019d607f-7749-75c3-8b60-890539130c4d','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ac048-ba3a-78d4-afe2-9a601f44911f','MEMBER',0,'2026-04-06T01:54:19.593000Z','2026-04-06T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019d9925-6b49-74c9-baab-7ad365608cb1','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ae69e-7f56-7904-b4aa-ac2cd07e0615','MEMBER',1,'2026-04-17T01:54:19.593000Z','2026-04-17T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019dd1cb-5f49-7703-81f1-e4c5f012ceec','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b06d9-c61b-770a-a209-0cb4df93c25b','MEMBER',1,'2026-04-28T01:54:19.593000Z','2026-04-28T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019c4541-b349-7248-8a20-a3a9b3e82727','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','ADMIN',1,'2026-02-10T01:54:19.593000Z','2026-02-10T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019c7de7-a749-79cb-b65f-6f608c2c1373','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b96fa-b6b4-7c77-8f8d-a90cac8f8ae8','MEMBER',1,'2026-02-21T01:54:19.593000Z','2026-02-21T01:54:19.593000Z');
INSERT INTO "memberships" VALUES('019cb68d-9b49-7b57-859a-db226386958a','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019a9a55-7935-7f3c-9148-a6f2344ff820','MEMBER',0,'2026-03-04T01:54:19.593000Z','2026-03-04T01:54:19.593000Z');
CREATE TABLE meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('schema_version','6');
INSERT INTO "meta" VALUES('created_at','2026-11-27T01:54:19.549704Z');
INSERT INTO "meta" VALUES('demo','20260901');
INSERT INTO "meta" VALUES('access_changes','1');
CREATE TABLE oauth_answers (
	sha256 TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	PRIMARY KEY (sha256)
);
CREATE TABLE oauth_authorizations (
	id TEXT NOT NULL, 
	client_id TEXT NOT NULL, 
	person_id TEXT NOT NULL, 
	account_id TEXT NOT NULL, 
	scopes_json TEXT NOT NULL, 
	redirect_uri TEXT NOT NULL, 
	code_sha256 TEXT NOT NULL, 
	code_challenge TEXT NOT NULL, 
	code_expires_at TEXT NOT NULL, 
	code_used_at TEXT, 
	revoked_at TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(client_id) REFERENCES oauth_clients (id), 
	FOREIGN KEY(person_id) REFERENCES accounts (id), 
	FOREIGN KEY(account_id) REFERENCES accounts (id), 
	UNIQUE (code_sha256)
);
CREATE TABLE oauth_clients (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	metadata_json TEXT NOT NULL, 
	registered_from TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE oauth_tokens (
	sha256 TEXT NOT NULL, 
	authorization_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	scopes_json TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	spent_at TEXT, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (sha256), 
	FOREIGN KEY(authorization_id) REFERENCES oauth_authorizations (id)
);
CREATE TABLE page_sessions (
	sha256 TEXT NOT NULL, 
	account_id TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	PRIMARY KEY (sha256), 
	FOREIGN KEY(account_id) REFERENCES accounts (id)
);
CREATE TABLE pending_turns (
	task_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	message_id TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	owner TEXT, 
	PRIMARY KEY (task_id)
);
CREATE TABLE processes (
	id TEXT NOT NULL, 
	lease_until DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE request_windows (
	minute INTEGER NOT NULL, 
	counted TEXT NOT NULL, 
	taken INTEGER NOT NULL, 
	PRIMARY KEY (minute, counted)
);
CREATE TABLE sessions (
	id TEXT NOT NULL, 
	workspace_id TEXT NOT NULL, 
	agent_id TEXT, 
	agent_version_id TEXT, 
	type TEXT NOT NULL, 
	initiator_id TEXT NOT NULL, 
	initiator_type TEXT NOT NULL, 
	name TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);
INSERT INTO "sessions" VALUES('01a2197a-e877-7d35-97c2-f1a5e640bbcc','019e1435-1442-739a-b571-d73943fd6b75','019e2d55-9589-79a2-a2c3-637259625cb1',NULL,'api_trigger','01a049c6-dafd-7ce0-9b70-d32c5c39a05b','trigger','Build 3.7.3','2026-11-26T20:10:15.031000Z','2026-11-26T20:10:19.633000Z');
INSERT INTO "sessions" VALUES('01a21ab6-a60d-7242-93e9-939f6cc66617','01a21ab6-a3b6-720f-80f1-cf3a2197a305','019d6011-e4b5-78ca-8804-79d5b6dc172b',NULL,'chat','01a21ab6-5ed8-736e-9114-f744c1d2e10f','api_key','What is a session?','2026-11-27T01:55:07.405169Z','2026-11-27T01:55:11.212839Z');
INSERT INTO "sessions" VALUES('01a21ab6-b569-72cc-ae3b-ad9add21d0c7','01a21ab6-a3b6-720f-80f1-cf3a2197a305','019d83ba-955f-766f-925e-566576ee0d7a',NULL,'chat','01a21ab6-5ed8-736e-9114-f744c1d2e10f','api_key','What is a session?','2026-11-27T01:55:11.337068Z','2026-11-27T01:55:11.642673Z');
INSERT INTO "sessions" VALUES('01a21ab6-b73c-75fe-8fbb-b2f766747323','01a21ab6-a3b6-720f-80f1-cf3a2197a305','019d6573-3ac7-763c-b449-b08a803507a3',NULL,'chat','01a21ab6-5ed8-736e-9114-f744c1d2e10f','api_key','What is a session?','2026-11-27T01:55:11.804848Z','2026-11-27T01:55:12.248510Z');
CREATE TABLE signin_links (
	sha256 TEXT NOT NULL, 
	account_id TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	PRIMARY KEY (sha256), 
	FOREIGN KEY(account_id) REFERENCES accounts (id)
);
CREATE TABLE skill_versions (
	id TEXT NOT NULL, 
	skill_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	version_number TEXT NOT NULL, 
	overview TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(skill_id) REFERENCES skills (id)
);
INSERT INTO "skill_versions" VALUES('019f1637-96dd-71a5-aceb-999c37173428','019f1637-96dd-7c92-9fb8-22c48da99535','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Finds a parcel by order number with any of our carriers.','2026-06-30T01:49:29.693000Z','2026-06-30T01:49:29.693000Z');
INSERT INTO "skill_versions" VALUES('019fb048-7d1b-726f-9155-4c3572409b39','019fb048-7d1b-7b23-b3e4-7ff21bc6bd7e','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Runs a total two ways and reports both.','2026-07-29T23:49:28.475000Z','2026-07-29T23:49:28.475000Z');
INSERT INTO "skill_versions" VALUES('01a016b7-e474-74ec-85c6-feab6df6d440','01a016b7-e474-7ead-96e9-0167162a8841','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Rewrites a text in the words we use.','2026-08-18T21:12:25.460000Z','2026-08-18T21:12:25.460000Z');
INSERT INTO "skill_versions" VALUES('01a03109-98df-7b33-924c-afaee2966a5d','01a03109-98df-73d8-8901-05cd60f0d48c','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Quotes the section of a runbook that fits an alert.','2026-08-23T23:51:47.679000Z','2026-08-23T23:51:47.679000Z');
INSERT INTO "skill_versions" VALUES('01a0e4b4-7658-72fd-96bf-b501d7d77523','01a0e4b4-7658-7771-b75e-61b0016b1f7b','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Cites a contract''s clause with its number.','2026-09-27T21:10:27.160000Z','2026-09-27T21:10:27.160000Z');
INSERT INTO "skill_versions" VALUES('019b7644-f7bc-7fac-a8dd-7aac5e40f8be','019b7644-f7bc-7359-a301-6712ba623647','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Sent confirmations by fax.','2025-12-31T21:16:30.012000Z','2025-12-31T21:16:30.012000Z');
INSERT INTO "skill_versions" VALUES('01a14c57-8838-764b-9d5c-1c8a396aa4e9','01a14c57-8838-7f69-9bfc-b66c7cc82087','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','1.0.0','Suggests presents by price.','2026-10-18T00:09:27.352000Z','2026-10-18T00:09:27.352000Z');
INSERT INTO "skill_versions" VALUES('01a17f55-3fe3-7de3-834f-3504d4803b1f','01a17f55-3fe3-704b-b403-cc794e73789e','019a09f9-85b9-778f-9667-04013db2b9a2','1.0.0','Makes one page of a week''s notes.','2026-10-27T21:47:35.779000Z','2026-10-27T21:47:35.779000Z');
CREATE TABLE skills (
	id TEXT NOT NULL, 
	owner_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	overview TEXT, 
	avatar_url TEXT, 
	is_public BOOLEAN DEFAULT false NOT NULL, 
	archived_at TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (owner_id, name), 
	FOREIGN KEY(owner_id) REFERENCES accounts (id)
);
INSERT INTO "skills" VALUES('019f1637-96dd-7c92-9fb8-22c48da99535','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','track-a-parcel','Finds a parcel by order number with any of our carriers.',NULL,0,NULL,'2026-06-30T01:49:29.693000Z','2026-06-30T01:49:29.693000Z');
INSERT INTO "skills" VALUES('019fb048-7d1b-7b23-b3e4-7ff21bc6bd7e','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','careful-sql','Runs a total two ways and reports both.',NULL,0,NULL,'2026-07-29T23:49:28.475000Z','2026-07-29T23:49:28.475000Z');
INSERT INTO "skills" VALUES('01a016b7-e474-7ead-96e9-0167162a8841','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','house-style','Rewrites a text in the words we use.',NULL,1,NULL,'2026-08-18T21:12:25.460000Z','2026-08-18T21:12:25.460000Z');
INSERT INTO "skills" VALUES('01a03109-98df-73d8-8901-05cd60f0d48c','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','read-a-runbook','Quotes the section of a runbook that fits an alert.',NULL,0,NULL,'2026-08-23T23:51:47.679000Z','2026-08-23T23:51:47.679000Z');
INSERT INTO "skills" VALUES('01a0e4b4-7658-7771-b75e-61b0016b1f7b','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','quote-a-clause','Cites a contract''s clause with its number.',NULL,0,NULL,'2026-09-27T21:10:27.160000Z','2026-09-27T21:10:27.160000Z');
INSERT INTO "skills" VALUES('019b7644-f7bc-7359-a301-6712ba623647','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','fax-a-confirmation','Sent confirmations by fax.',NULL,0,'2026-07-19T21:16:30.012000Z','2025-12-31T21:16:30.012000Z','2026-07-19T21:16:30.012000Z');
INSERT INTO "skills" VALUES('01a14c57-8838-7f69-9bfc-b66c7cc82087','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','gift-finder','Suggests presents by price.',NULL,0,NULL,'2026-10-18T00:09:27.352000Z','2026-10-18T00:09:27.352000Z');
INSERT INTO "skills" VALUES('01a17f55-3fe3-704b-b403-cc794e73789e','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','summarise-my-week','Makes one page of a week''s notes.',NULL,0,NULL,'2026-10-27T21:47:35.779000Z','2026-10-27T21:47:35.779000Z');
CREATE TABLE spending (
	scope TEXT NOT NULL, 
	spender_id TEXT NOT NULL, 
	month TEXT NOT NULL, 
	tokens BIGINT NOT NULL, 
	PRIMARY KEY (scope, spender_id, month)
);
CREATE TABLE workspace_agents (
	id TEXT NOT NULL, 
	workspace_id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	required_credentials_mode TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (workspace_id, agent_id), 
	FOREIGN KEY(workspace_id) REFERENCES workspaces (id), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "workspace_agents" VALUES('019d8786-781f-7948-ad71-335b0ac63610','019d1210-d795-7442-afac-528cb2ca8e4d','019d83ba-955f-766f-925e-566576ee0d7a','019a09f9-85b9-778f-9667-04013db2b9a2',NULL,'2026-04-13T15:47:09.983000Z','2026-04-13T15:47:09.983000Z');
INSERT INTO "workspace_agents" VALUES('019d6229-9c99-7bbd-aca4-8d4e750bcd0f','019d1210-d795-7442-afac-528cb2ca8e4d','019d6011-e4b5-78ca-8804-79d5b6dc172b','019a09f9-85b9-778f-9667-04013db2b9a2',NULL,'2026-04-06T09:39:47.481000Z','2026-04-06T09:39:47.481000Z');
INSERT INTO "workspace_agents" VALUES('019daed0-a39b-7a2f-b1c9-0a4371d2a001','019d45c8-b72f-7802-8563-bee64f691a55','019dac3b-e97f-7a18-a5a1-10d773224c53','019a5694-8832-7cab-8d16-49fca7b250b8','MEMBER','2026-04-21T06:53:22.203000Z','2026-04-21T06:53:22.203000Z');
INSERT INTO "workspace_agents" VALUES('019d6890-558f-760e-9189-21b810694d0d','019d45c8-b72f-7802-8563-bee64f691a55','019d6573-3ac7-763c-b449-b08a803507a3','019a5694-8832-7cab-8d16-49fca7b250b8',NULL,'2026-04-07T15:29:42.799000Z','2026-04-07T15:29:42.799000Z');
INSERT INTO "workspace_agents" VALUES('019e3105-ec16-7681-91af-b5f1a1677282','019e1435-1442-739a-b571-d73943fd6b75','019e2d55-9589-79a2-a2c3-637259625cb1','019ac048-ba3a-78d4-afe2-9a601f44911f',NULL,'2026-05-16T13:42:12.246000Z','2026-05-16T13:42:12.246000Z');
INSERT INTO "workspace_agents" VALUES('019e49f1-ac80-7b8b-a653-b825bd380b41','019e1dc3-7512-7536-b0d2-d1d4b4562d53','019e477a-b3dd-7878-96af-d5b58648f574','019ae69e-7f56-7904-b4aa-ac2cd07e0615',NULL,'2026-05-21T09:50:35.648000Z','2026-05-21T09:50:35.648000Z');
INSERT INTO "workspace_agents" VALUES('019e20e4-5063-71c8-bc63-6d3991d8b959','019e1dc3-7512-7536-b0d2-d1d4b4562d53','019d6573-3ac7-763c-b449-b08a803507a3','019ae69e-7f56-7904-b4aa-ac2cd07e0615',NULL,'2026-05-13T10:31:34.243000Z','2026-05-13T10:31:34.243000Z');
INSERT INTO "workspace_agents" VALUES('019ee4f5-9f56-70ec-9f0b-094d082486b7','019eaf05-ca4b-70aa-b87f-98031e6d2429','019ee131-f855-7629-86ec-e001350de328','019b06d9-c61b-770a-a209-0cb4df93c25b',NULL,'2026-06-20T12:16:02.902000Z','2026-06-20T12:16:02.902000Z');
INSERT INTO "workspace_agents" VALUES('019eb14d-2698-75a2-be0a-1b4e369e61e5','019eaf05-ca4b-70aa-b87f-98031e6d2429','019d83ba-955f-766f-925e-566576ee0d7a','019b06d9-c61b-770a-a209-0cb4df93c25b','SHARED','2026-06-10T11:31:23.928000Z','2026-06-10T11:31:23.928000Z');
INSERT INTO "workspace_agents" VALUES('019ecbd1-c304-778a-be22-d9ee2cd8cfed','019ec876-7af8-7a26-bfce-24d355152813','019dac3b-e97f-7a18-a5a1-10d773224c53','019a2faa-2317-77ed-9635-31edc861df73',NULL,'2026-06-15T15:06:22.340000Z','2026-06-15T15:06:22.340000Z');
INSERT INTO "workspace_agents" VALUES('01a0e9c0-a789-716c-902b-016301e21fea','01a0e490-a216-7c4c-b0ea-7a92d024253e','019d6011-e4b5-78ca-8804-79d5b6dc172b','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-09-28T20:41:52.265000Z','2026-09-28T20:41:52.265000Z');
INSERT INTO "workspace_agents" VALUES('01a0e78c-2e96-77c5-9f37-9a664c762798','01a0e490-a216-7c4c-b0ea-7a92d024253e','019d6573-3ac7-763c-b449-b08a803507a3','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-09-28T10:25:18.998000Z','2026-09-28T10:25:18.998000Z');
INSERT INTO "workspace_agents" VALUES('01a0e644-4c67-7932-80bb-ffe2734e0598','01a0e490-a216-7c4c-b0ea-7a92d024253e','019d83ba-955f-766f-925e-566576ee0d7a','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-09-28T04:27:10.823000Z','2026-09-28T04:27:10.823000Z');
INSERT INTO "workspace_agents" VALUES('01a11b8e-692b-77ed-a781-660d82f6f61e','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a117af-36be-70a0-9021-e587b61eaab1','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-08T12:48:00.299000Z','2026-10-08T12:48:00.299000Z');
INSERT INTO "workspace_agents" VALUES('01a10299-b67b-7ced-8ad4-d8454d228f48','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a0fe8a-0417-7286-a70d-a054441b7e38','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-03T16:29:50.587000Z','2026-10-03T16:29:50.587000Z');
INSERT INTO "workspace_agents" VALUES('01a1023d-a068-79bf-b7ba-32e703b0ba50','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a0fe41-4b80-7e54-ab8b-75172d979d2b','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-03T14:49:15.624000Z','2026-10-03T14:49:15.624000Z');
INSERT INTO "workspace_agents" VALUES('01a101ed-6628-77f1-9b6e-b52043a72883','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a0ff44-d4d0-7fa3-af41-8660714dbae3','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-03T13:21:37.832000Z','2026-10-03T13:21:37.832000Z');
INSERT INTO "workspace_agents" VALUES('01a1014f-1cfb-7528-b122-99dff461465b','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a0fec1-0f85-705b-a14b-a7f5e2bb4a8b','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-03T10:28:44.411000Z','2026-10-03T10:28:44.411000Z');
INSERT INTO "workspace_agents" VALUES('01a10525-5d4c-76e0-a044-cc5359c8ca8c','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10478-bbda-7fc2-8154-7278d278a46b','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T04:21:37.228000Z','2026-10-04T04:21:37.228000Z');
INSERT INTO "workspace_agents" VALUES('01a107c1-964e-7ec4-b2c6-bc6948255da4','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10435-7ed4-70bd-ac52-f7ac29e01a61','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T16:31:29.870000Z','2026-10-04T16:31:29.870000Z');
INSERT INTO "workspace_agents" VALUES('01a10585-174a-7164-9ccf-be5985a6c51a','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10313-fc9d-7b7f-8e98-ebbfd8244c60','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T06:06:10.762000Z','2026-10-04T06:06:10.762000Z');
INSERT INTO "workspace_agents" VALUES('01a106c8-ca99-7cd8-b43b-897ad9ed168e','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a1038f-a343-7c30-ae90-73e958d3a968','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T11:59:44.793000Z','2026-10-04T11:59:44.793000Z');
INSERT INTO "workspace_agents" VALUES('01a108b2-5fc7-7034-8a8e-7381956c4cde','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10310-27cc-7fe1-83e2-ccb2d74142a0','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T20:54:30.087000Z','2026-10-04T20:54:30.087000Z');
INSERT INTO "workspace_agents" VALUES('01a108ab-7dcb-7772-a778-c9a545de232d','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10426-c6c6-7440-af06-2895a7cdd0d6','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T20:46:59.019000Z','2026-10-04T20:46:59.019000Z');
INSERT INTO "workspace_agents" VALUES('01a10608-d154-7b30-b041-deca2f0a0ef0','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a10443-dd82-73cb-b888-5754f5a6650e','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T08:30:03.604000Z','2026-10-04T08:30:03.604000Z');
INSERT INTO "workspace_agents" VALUES('01a1051b-0116-79cc-a744-069ead5053a0','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a1043f-64dc-73ee-8eff-50ca53b5e03f','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T04:10:18.262000Z','2026-10-04T04:10:18.262000Z');
INSERT INTO "workspace_agents" VALUES('01a107e5-4bd7-7737-ba50-83cce2b74542','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a1046d-bebc-7288-8140-d1abc1c0b332','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-04T17:10:30.103000Z','2026-10-04T17:10:30.103000Z');
INSERT INTO "workspace_agents" VALUES('019d5c1c-f007-72b8-b50f-bd02f8b11459','019d2b4f-3c6c-7ef6-b48a-bd34b6525a51','019d5a56-a611-7838-9f9b-b05b999323dd','019a09f9-85b9-778f-9667-04013db2b9a2',NULL,'2026-04-05T05:28:13.575000Z','2026-04-05T05:28:13.575000Z');
INSERT INTO "workspace_agents" VALUES('01a0f606-062d-7417-b2a5-9b20a0fe6762','01a0ef22-39be-7eb6-85de-3f8c023ce9ff','01a0f518-62b0-7ba3-aa17-7f9a266ca597','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54',NULL,'2026-10-01T05:53:05.069000Z','2026-10-01T05:53:05.069000Z');
INSERT INTO "workspace_agents" VALUES('01a11ab6-6066-7ce1-be99-315234ccc3c1','01a0ef22-39be-7eb6-85de-3f8c023ce9ff','01a117af-36be-70a0-9021-e587b61eaab1','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54',NULL,'2026-10-08T08:52:02.278000Z','2026-10-08T08:52:02.278000Z');
INSERT INTO "workspace_agents" VALUES('01a128f7-e0f1-7f83-a9ba-25298c665efa','01a122ac-f46d-757b-bbb5-4d78d251dfa3','01a12843-1e3f-7559-bbe4-8014a6470b10','019a09f9-85b9-778f-9667-04013db2b9a2',NULL,'2026-10-11T03:18:16.049000Z','2026-10-11T03:18:16.049000Z');
INSERT INTO "workspace_agents" VALUES('01a1196e-e1c9-740c-b148-d086b90fe1ea','01a0e490-a216-7c4c-b0ea-7a92d024253e','01a11937-f349-7649-84d9-25d6f81bcca2','019a9a55-7935-7f3c-9148-a6f2344ff820',NULL,'2026-10-08T02:54:19.593000Z','2026-10-08T02:54:19.593000Z');
CREATE TABLE workspace_members (
	id TEXT NOT NULL, 
	workspace_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	creator_id TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (workspace_id, user_id), 
	FOREIGN KEY(workspace_id) REFERENCES workspaces (id), 
	FOREIGN KEY(user_id) REFERENCES accounts (id)
);
INSERT INTO "workspace_members" VALUES('019ec933-8dc9-7863-b23c-e92ec30d0ac0','019ec876-7af8-7a26-bfce-24d355152813','019a2faa-2317-77ed-9635-31edc861df73','019a2faa-2317-77ed-9635-31edc861df73','2026-06-15T02:54:19.593000Z','2026-06-15T02:54:19.593000Z');
INSERT INTO "workspace_members" VALUES('019fb0f1-b9c9-7000-86d6-dfd3fcc82e76','019ec876-7af8-7a26-bfce-24d355152813','019a7714-7d52-7db1-8db7-560a2190636f','019a2faa-2317-77ed-9635-31edc861df73','2026-07-30T02:54:19.593000Z','2026-07-30T02:54:19.593000Z');
INSERT INTO "workspace_members" VALUES('01a14cee-79c9-73aa-bf99-603cd92d9d19','019ec876-7af8-7a26-bfce-24d355152813','019a5694-8832-7cab-8d16-49fca7b250b8','019a2faa-2317-77ed-9635-31edc861df73','2026-10-18T02:54:19.593000Z','2026-10-18T02:54:19.593000Z');
CREATE TABLE workspaces (
	id TEXT NOT NULL, 
	owner_id TEXT NOT NULL, 
	creator_id TEXT NOT NULL, 
	creator_type TEXT DEFAULT 'user' NOT NULL, 
	name TEXT NOT NULL, 
	restrict_account_credentials BOOLEAN DEFAULT false NOT NULL, 
	should_restrict_members BOOLEAN DEFAULT false NOT NULL, 
	unlimited_power_mode BOOLEAN DEFAULT false NOT NULL, 
	required_credentials_mode TEXT, 
	archived_at TEXT, 
	archived_by_id TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (owner_id, name), 
	FOREIGN KEY(owner_id) REFERENCES accounts (id)
);
INSERT INTO "workspaces" VALUES('019d1210-d795-7442-afac-528cb2ca8e4d','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','user','support',0,0,0,'SHARED',NULL,NULL,'2026-03-21T20:23:06.901000Z','2026-04-01T00:07:33.975000Z');
INSERT INTO "workspaces" VALUES('019d45c8-b72f-7802-8563-bee64f691a55','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a5694-8832-7cab-8d16-49fca7b250b8','user','data',0,0,1,NULL,NULL,NULL,'2026-03-31T21:24:35.247000Z','2026-04-03T03:48:51.067000Z');
INSERT INTO "workspaces" VALUES('019e1435-1442-739a-b571-d73943fd6b75','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ac048-ba3a-78d4-afe2-9a601f44911f','user','release',0,0,0,NULL,NULL,NULL,'2026-05-10T23:24:43.458000Z','2026-05-22T13:48:15.570000Z');
INSERT INTO "workspaces" VALUES('019e1dc3-7512-7536-b0d2-d1d4b4562d53','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019ae69e-7f56-7904-b4aa-ac2cd07e0615','user','on-call',1,0,0,NULL,NULL,NULL,'2026-05-12T19:56:49.298000Z','2026-05-15T00:08:50.277000Z');
INSERT INTO "workspaces" VALUES('019eaf05-ca4b-70aa-b87f-98031e6d2429','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019b06d9-c61b-770a-a209-0cb4df93c25b','user','sales',0,0,0,'MEMBER',NULL,NULL,'2026-06-10T00:54:12.811000Z','2026-06-14T21:40:06.992000Z');
INSERT INTO "workspaces" VALUES('019ec876-7af8-7a26-bfce-24d355152813','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a2faa-2317-77ed-9635-31edc861df73','user','finance',0,1,0,'SHARED',NULL,NULL,'2026-06-14T23:27:48.472000Z','2026-07-01T18:49:35.352000Z');
INSERT INTO "workspaces" VALUES('01a0e490-a216-7c4c-b0ea-7a92d024253e','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','01a14c16-efc9-7740-9bef-43009ed5f268','api_key','playground',0,0,0,NULL,NULL,NULL,'2026-09-27T20:31:19.062000Z','2026-10-03T15:58:34.108000Z');
INSERT INTO "workspaces" VALUES('019d2b4f-3c6c-7ef6-b48a-bd34b6525a51','019bbcd7-abd5-7bc1-b608-9d5f88802a3d','019a09f9-85b9-778f-9667-04013db2b9a2','user','onboarding',0,0,0,NULL,'2026-11-15T01:54:19.593000Z','019a09f9-85b9-778f-9667-04013db2b9a2','2026-03-26T18:01:46.348000Z','2026-11-15T01:54:19.593000Z');
INSERT INTO "workspaces" VALUES('01a0ef22-39be-7eb6-85de-3f8c023ce9ff','019be355-2eab-7b1b-ae02-5a1fc46cf7a8','019b744f-af6c-7cd4-bd38-e4b9a6d9cd54','user','shop',0,0,0,NULL,NULL,NULL,'2026-09-29T21:46:32.766000Z','2026-09-30T00:09:00.466000Z');
INSERT INTO "workspaces" VALUES('01a122ac-f46d-757b-bbb5-4d78d251dfa3','019a09f9-85b9-778f-9667-04013db2b9a2','019a09f9-85b9-778f-9667-04013db2b9a2','user','notes',0,0,0,NULL,NULL,NULL,'2026-10-09T21:58:42.541000Z','2026-10-26T21:56:59.329000Z');
INSERT INTO "workspaces" VALUES('01a21ab6-a3b6-720f-80f1-cf3a2197a305','01a21ab6-152a-7445-9241-58b5a028caa3','01a21ab6-5ed8-736e-9114-f744c1d2e10f','api_key','research',0,0,0,NULL,NULL,NULL,'2026-11-27T01:55:06.806709Z','2026-11-27T01:55:06.806709Z');
CREATE INDEX events_by_size ON events (session_id, id, size_bytes);
CREATE INDEX ix_pending_turns_session_id ON pending_turns (session_id);
CREATE INDEX oauth_clients_by_address ON oauth_clients (registered_from, created_at);
CREATE INDEX ix_oauth_answers_expires_at ON oauth_answers (expires_at);
CREATE INDEX ix_api_keys_account_id ON api_keys (account_id);
CREATE INDEX ix_api_keys_authorization_id ON api_keys (authorization_id);
CREATE INDEX ix_credentials_account_id ON credentials (account_id);
CREATE INDEX ix_credentials_owner_id ON credentials (owner_id);
CREATE INDEX ix_invitations_organization_id ON invitations (organization_id);
CREATE INDEX ix_invitations_invitee_id ON invitations (invitee_id);
CREATE INDEX ix_oauth_authorizations_person_id ON oauth_authorizations (person_id);
CREATE INDEX ix_workspace_members_user_id ON workspace_members (user_id);
CREATE INDEX ix_agent_versions_agent_id ON agent_versions (agent_id);
CREATE INDEX ix_workspace_agents_agent_id ON workspace_agents (agent_id);
CREATE INDEX ix_workspace_agents_workspace_id ON workspace_agents (workspace_id);
CREATE INDEX ix_skill_versions_skill_id ON skill_versions (skill_id);
CREATE INDEX ix_contexts_workspace_id ON contexts (workspace_id);
CREATE INDEX sessions_by_workspace ON sessions (workspace_id, id);
CREATE INDEX ix_oauth_tokens_authorization_id ON oauth_tokens (authorization_id);
CREATE INDEX ix_oauth_tokens_expires_at ON oauth_tokens (expires_at);
DELETE FROM "sqlite_sequence";
COMMIT;
